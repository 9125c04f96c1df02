# phasescope_precompile(): with PHASESCOPE_PCH, LibTorch's headers are read once for the libraries and
# once for the tests (those are compiled as PIE) instead of ten seconds for every file.

function(phasescope_precompile_group first)
  if(NOT TARGET ${first})
    return()
  endif()
  target_precompile_headers(${first} PRIVATE <ATen/ATen.h>)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      target_precompile_headers(${target} REUSE_FROM ${first})
    endif()
  endforeach()
endfunction()

function(phasescope_precompile)
  if(PHASESCOPE_PCH AND PHASESCOPE_TORCH_DIR)
    phasescope_precompile_group(phasescope_model
      phasescope_analysis phasescope_training phasescope_worker)
    phasescope_precompile_group(model_test analysis_test training_test)
  endif()
endfunction()
