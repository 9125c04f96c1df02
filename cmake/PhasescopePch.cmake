# phasescope_precompile(): with PHASESCOPE_PCH, LibTorch's headers are read once for the libraries and
# once for the tests (those are compiled as PIE) instead of ten seconds for every file.

# A target without definitions of its own, with the warnings of all others: a compiler takes a
# precompiled header only where every macro that it was made with stands too, and -Wpedantic changes some.
# Behind it gcc 12 takes more of std::string's own code for overflows, which is a false alarm; a
# compiler cache wants -fpch-preprocess.
function(phasescope_precompiled_torch name code_option)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "" @ONLY)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cpp)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE ${code_option})
  phasescope_warnings(${name})
  target_link_libraries(${name} PRIVATE phasescope::torch phasescope::kernels)
  target_compile_options(${name} PRIVATE -fpch-preprocess)
  target_precompile_headers(${name} PRIVATE <ATen/ATen.h>)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      target_precompile_headers(${target} REUSE_FROM ${name})
      target_compile_options(${target} PRIVATE
        -Wno-array-bounds -Wno-stringop-overflow -fpch-preprocess)
    endif()
  endforeach()
endfunction()

function(phasescope_precompile)
  if(PHASESCOPE_PCH AND PHASESCOPE_TORCH_DIR)
    phasescope_precompiled_torch(phasescope_torch_pic -fPIC
      phasescope_model phasescope_analysis phasescope_training phasescope_worker)
    phasescope_precompiled_torch(phasescope_torch_pie -fPIE
      model_test model_meta_test model_counting_device_test cuda_backend_test model_cuda_test
      analysis_test training_test worker_test worker_cuda_test)
  endif()
endfunction()
