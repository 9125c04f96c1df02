# Compiled by nvcc for the library, and by the host's compiler for tests/kernels/cuda_emulation.
set(PHASESCOPE_CUDA_SOURCES
  attention_cuda.cu
  backward_cape.cu
  backward_clamp.cu
  backward_fire.cu
  backward_plain.cu
  backward_plain_tokens.cu
  backward_plain_wide.cu
  backward_query_table.cu
  backward_table.cu
  backward_table_multiplied.cu
  backward_table_tokens.cu
  backward_table_wide.cu
  backward_tapa.cu
  backward_tape.cu
  buckets.cu
  cape_memory.cu
  cape_tables.cu
  cuda_kernels.cu
  documents.cu
  forward_cape.cu
  forward_clamp.cu
  forward_fire.cu
  forward_plain.cu
  forward_plain_tokens.cu
  forward_plain_wide.cu
  forward_query_table.cu
  forward_table.cu
  forward_table_multiplied.cu
  forward_table_tokens.cu
  forward_table_wide.cu
  forward_tapa.cu
  forward_tape.cu
  gates.cu
  hopper_plain.cu
  hopper_table.cu
  hopper_tapa.cu
  hopper_tape.cu
  score_sums.cu
  sums_cape.cu
  sums_clamp.cu
  sums_fire.cu
  sums_plain.cu
  sums_plain_tokens.cu
  sums_plain_wide.cu
  sums_query_table.cu
  sums_table.cu
  sums_table_multiplied.cu
  sums_table_tokens.cu
  sums_table_wide.cu
  sums_tapa.cu)
list(TRANSFORM PHASESCOPE_CUDA_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
# Those that one architecture alone has the instructions for.
set(PHASESCOPE_HOPPER_SOURCES ${PHASESCOPE_CUDA_SOURCES})
list(FILTER PHASESCOPE_HOPPER_SOURCES INCLUDE REGEX "/hopper_[a-z]+\\.cu$")
