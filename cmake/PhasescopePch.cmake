# phasescope_precompile(): with PHASESCOPE_PCH, LibTorch's headers are read once instead of ten seconds for
# every file of the libraries. phasescope_precompile_tests(), of tests/: the same for the programs there, which are not
# optimised, and so take another precompiled header, with GoogleTest's.

# A target without definitions of its own, with the warnings of all others: a compiler takes a
# precompiled header only where every macro that it was made with stands too, and -O0, -Wpedantic and -fPIE change
# some, so that programs are compiled as the libraries are.
function(phasescope_add_headers name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "" @ONLY)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cpp)
  phasescope_warnings(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  # A compiler cache wants it.
  target_compile_options(${name} PRIVATE -fpch-preprocess)
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# Behind them gcc 12 takes more of std::string's own code for overflows, which is a false alarm.
function(phasescope_use_headers name target)
  target_precompile_headers(${target} REUSE_FROM ${name})
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -fpch-preprocess)
endfunction()

function(phasescope_precompile)
  if(NOT PHASESCOPE_PCH OR NOT PHASESCOPE_TORCH_DIR)
    return()
  endif()
  set(name phasescope_torch_headers)
  phasescope_add_headers(${name} HEADERS <ATen/ATen.h> DEPS phasescope::torch phasescope::kernels)
  foreach(folder model analysis training worker)
    if(TARGET phasescope_${folder})
      phasescope_use_headers(${name} phasescope_${folder})
    endif()
  endforeach()
endfunction()

# The tests' programs, and what several of them have in common (model_test_cases), that link what links LibTorch. What they
# start reads little of it.
function(phasescope_precompile_tests)
  if(NOT PHASESCOPE_PCH OR NOT PHASESCOPE_TORCH_DIR)
    return()
  endif()
  set(name phasescope_test_headers)
  phasescope_add_headers(${name} HEADERS <ATen/ATen.h> <gtest/gtest.h>
    DEPS phasescope::torch phasescope::kernels GTest::gtest)
  get_property(folders DIRECTORY PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      get_target_property(libraries ${target} LINK_LIBRARIES)
      if("${type}" MATCHES "^(EXECUTABLE|OBJECT_LIBRARY)$" AND target MATCHES "_test(_cases)?$"
          AND "${libraries}" MATCHES "phasescope::(model|analysis|training|worker)(;|$)")
        phasescope_use_headers(${name} ${target})
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
        target_compile_options(${target} PRIVATE -fPIC)
      endif()
    endforeach()
  endforeach()
endfunction()
