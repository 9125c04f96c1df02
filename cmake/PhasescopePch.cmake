# phasescope_precompile(): with PHASESCOPE_PCH, LibTorch's headers are read once instead of ten seconds for
# every file of the libraries and the tests.

# A target without definitions of its own, with the warnings of all others: a compiler takes a
# precompiled header only where every macro that it was made with stands too, and -Wpedantic and -fPIE change
# some, so that programs are compiled as the libraries are.
# Behind it gcc 12 takes more of std::string's own code for overflows, which is a false alarm; a
# compiler cache wants -fpch-preprocess.
function(phasescope_precompile)
  if(NOT PHASESCOPE_PCH OR NOT PHASESCOPE_TORCH_DIR)
    return()
  endif()
  set(name phasescope_torch_headers)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "" @ONLY)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cpp)
  phasescope_warnings(${name})
  target_link_libraries(${name} PRIVATE phasescope::torch phasescope::kernels)
  target_compile_options(${name} PRIVATE -fpch-preprocess)
  target_precompile_headers(${name} PRIVATE <ATen/ATen.h>)
  set(programs model_test model_meta_test model_counting_device_test cuda_backend_test model_cuda_test
      analysis_test training_test worker_test worker_cuda_test)
  foreach(target phasescope_model phasescope_analysis phasescope_training phasescope_worker ${programs})
    if(TARGET ${target})
      target_precompile_headers(${target} REUSE_FROM ${name})
      target_compile_options(${target} PRIVATE
        -Wno-array-bounds -Wno-stringop-overflow -fpch-preprocess)
    endif()
  endforeach()
  foreach(program IN LISTS programs)
    if(TARGET ${program})
      set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${program} PRIVATE -fPIC)
    endif()
  endforeach()
endfunction()
