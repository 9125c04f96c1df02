# Compiled by nvcc for the library, and by the host's compiler for tests/kernels/cuda_emulation.
include(${CMAKE_CURRENT_LIST_DIR}/../scores.cmake)
set(PHASESCOPE_CUDA_SOURCES
  attention_cuda.cu
  backward_cape.cu
  backward_fire.cu
  buckets.cu
  cape_memory.cu
  cape_tables.cu
  cuda_kernels.cu
  documents.cu
  forward_cape.cu
  gates.cu
  score_sums.cu
  sums_cape.cu)
list(TRANSFORM PHASESCOPE_CUDA_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
phasescope_score_files(passes cuda cu)
list(APPEND PHASESCOPE_CUDA_SOURCES ${passes})
# So that those that are compiled together (phasescope_grouped) are of one pass.
list(SORT PHASESCOPE_CUDA_SOURCES COMPARE FILE_BASENAME)
# Those that one architecture alone has the instructions for.
set(PHASESCOPE_HOPPER_SOURCES ${PHASESCOPE_CUDA_SOURCES})
list(FILTER PHASESCOPE_HOPPER_SOURCES INCLUDE REGEX "/hopper_[a-z_]+\\.cu$")
