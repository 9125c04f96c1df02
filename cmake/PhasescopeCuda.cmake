# The CUDA compiler: CUDACXX or CMAKE_CUDA_COMPILER where given, else the pinned wheel's nvcc. With the
# wheel no CUDA installation is needed on the machine.

set(phasescope_nvcc_wheel ${CMAKE_SOURCE_DIR}/.venv/site-packages/nvidia/cu13)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS ${phasescope_nvcc_wheel}/bin/nvcc)
  set(CMAKE_CUDA_COMPILER ${phasescope_nvcc_wheel}/bin/nvcc CACHE FILEPATH "CUDA compiler")
  set(CUDAToolkit_ROOT ${phasescope_nvcc_wheel} CACHE PATH "CUDA toolkit")
endif()

# sm_80 code runs on every Ampere and Ada card, 90a on Hopper, the PTX on newer ones.
set(PHASESCOPE_CUDA_ARCHITECTURES "80-real;90a-real;90-virtual" CACHE STRING "GPU architectures")
set(CMAKE_CUDA_ARCHITECTURES ${PHASESCOPE_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
