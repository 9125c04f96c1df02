# The CUDA compiler: CUDACXX or CMAKE_CUDA_COMPILER where given, else the pinned wheel's nvcc. With the
# wheel no CUDA installation is needed on the machine.

set(phasescope_nvcc_wheel ${CMAKE_SOURCE_DIR}/.venv/site-packages/nvidia/cu13)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS ${phasescope_nvcc_wheel}/bin/nvcc)
  set(CMAKE_CUDA_COMPILER ${phasescope_nvcc_wheel}/bin/nvcc CACHE FILEPATH "CUDA compiler")
  set(CUDAToolkit_ROOT ${phasescope_nvcc_wheel} CACHE PATH "CUDA toolkit")
endif()

set(PHASESCOPE_CUDA_ARCHITECTURES "" CACHE STRING "GPU architectures; empty for those of every device that runs these")
if(PHASESCOPE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${PHASESCOPE_CUDA_ARCHITECTURES})
else()
  # sm_80 code runs on every Ampere and Ada card, 90a on Hopper, the PTX on newer ones.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
# kernels/cuda says which runtime a program has.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
