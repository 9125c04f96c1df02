# phasescope::torch: LibTorch straight from the wheel in PHASESCOPE_TORCH_DIR.
#
# find_package(Torch) is not used: for a wheel built with CUDA it insists on a CUDA toolkit even when
# nothing here is compiled for a GPU, rewrites CMAKE_CUDA_FLAGS and switches CMAKE_CUDA_ARCHITECTURES
# off in the directory that calls it.

if(NOT EXISTS ${PHASESCOPE_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "PHASESCOPE_TORCH_DIR (${PHASESCOPE_TORCH_DIR}) holds no lib/libtorch_cpu.so; "
    "./dev setup fetches the pinned one")
endif()

add_library(phasescope_torch INTERFACE)
add_library(phasescope::torch ALIAS phasescope_torch)
target_include_directories(phasescope_torch SYSTEM INTERFACE
  ${PHASESCOPE_TORCH_DIR}/include
  ${PHASESCOPE_TORCH_DIR}/include/torch/csrc/api/include)

foreach(name c10 torch_cpu)
  add_library(phasescope_torch_${name} SHARED IMPORTED GLOBAL)
  set_target_properties(phasescope_torch_${name} PROPERTIES
    IMPORTED_LOCATION ${PHASESCOPE_TORCH_DIR}/lib/lib${name}.so)
  target_link_libraries(phasescope_torch INTERFACE phasescope_torch_${name})
endforeach()

# The CUDA half is not linked: the worker loads it where there is a driver (worker/devices.cpp).
