# phasescope_library(folder SOURCES ... DEPS ...): the one static library of a folder.
# phasescope_test(folder SOURCES ... DEPS ... [LABELS ...] [SLOW FILTER] [LONG FILTER]): its GoogleTest
# program <folder>_test; cases that a FILTER matches run as a test of their own, labelled slow or long
# (those that both match are long). Labels: "slow" is
# left out by ./dev test --quick, "long" runs only with --long, "gpu" only with --gpu.

# Off: members left out of a designated initialiser (they have defaults), and gcc 12's false alarms
# about std::string's operator+ (GCC bug 105651) and about what an empty std::optional or a string of a
# copied struct holds (GCC bug 80635).
# nvcc's own generated code is not pedantic, so GPU sources go without -Wpedantic.
function(phasescope_warnings target)
  set(host $<COMPILE_LANGUAGE:CXX>)
  set(gpu $<COMPILE_LANGUAGE:CUDA>)
  target_compile_options(${target} PRIVATE
    "$<${host}:-Wall;-Wextra;-Wpedantic;-Wno-missing-field-initializers;-Wno-restrict;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>>"
    "$<${gpu}:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>")
  if(PHASESCOPE_WERROR)
    target_compile_options(${target} PRIVATE
      "$<${host}:-Werror>" "$<${gpu}:-Xcompiler=-Werror;SHELL:-Werror all-warnings>")
    if(PHASESCOPE_PCH)
      target_compile_options(${target} PRIVATE "$<${host}:-Wno-error=invalid-pch>")
    endif()
  endif()
endfunction()

# phasescope_optimise(target LEVEL): of a release build, where -O3 costs compiling and gains nothing
# measurable: what does no arithmetic of its own but waits for kernels, LibTorch or the graphics driver.
# Results are the same bits at every level (no -ffast-math anywhere).
function(phasescope_optimise target level)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
endfunction()

function(phasescope_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(phasescope_${folder} STATIC ${ARG_SOURCES})
  add_library(phasescope::${folder} ALIAS phasescope_${folder})
  target_include_directories(phasescope_${folder} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(phasescope_${folder} PUBLIC ${ARG_DEPS})
  phasescope_warnings(phasescope_${folder})
endfunction()

# ./dev test counts the cases in the file that it writes. Slow ones are begun first (COST), or the last
# of them would run alone. OpenMP threads that wait leave their core to the other tests. What a case names in
# testing::TempDir() is in a folder of the test's own: beside another one, or another build's, it stays its own.
function(phasescope_add_test name program labels filter)
  set(scratch ${CMAKE_BINARY_DIR}/test-scratch/${name})
  file(MAKE_DIRECTORY ${scratch})
  add_test(NAME ${name} COMMAND ${program})
  if("slow" IN_LIST labels)
    set_tests_properties(${name} PROPERTIES COST 100)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}"
    ENVIRONMENT "OMP_WAIT_POLICY=passive;TEST_TMPDIR=${scratch}"
    ENVIRONMENT_MODIFICATION "GTEST_OUTPUT=set:xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml")
  if(PHASESCOPE_FUZZ AND name MATCHES "^(formats|protocol|training_core|window_threads)$")
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT PHASESCOPE_KEEP_CASES=${PHASESCOPE_FUZZ_CASES})
    set_tests_properties(${name} PROPERTIES FIXTURES_SETUP fuzz_cases)
  endif()
  if(filter)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "GTEST_FILTER=${filter}")
  endif()
endfunction()

# The same cases in `parts` tests named <name>_1, <name>_2, ...: GoogleTest deals them out, each to one.
function(phasescope_add_parts name program labels filter parts)
  math(EXPR last "${parts} - 1")
  foreach(part RANGE ${last})
    math(EXPR number "${part} + 1")
    phasescope_add_test(${name}_${number} ${program} "${labels}" "${filter}")
    set_property(TEST ${name}_${number} APPEND PROPERTY ENVIRONMENT
      GTEST_TOTAL_SHARDS=${parts} GTEST_SHARD_INDEX=${part})
  endforeach()
endfunction()

function(phasescope_test folder)
  cmake_parse_arguments(ARG "" "SLOW;LONG;SLOW_PARTS" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${folder}_test ${ARG_SOURCES})
  target_link_libraries(${folder}_test PRIVATE ${ARG_DEPS} GTest::gtest_main)
  target_compile_definitions(${folder}_test PRIVATE
    PHASESCOPE_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" PHASESCOPE_SOURCE="${CMAKE_SOURCE_DIR}")
  phasescope_warnings(${folder}_test)
  if(PHASESCOPE_SANITIZE)
    # What is looked at is the code that is tested; the tests' own would take most of the compiling.
    target_compile_options(${folder}_test PRIVATE -O0 -fno-sanitize=undefined)
  endif()
  set(apart ${ARG_SLOW} ${ARG_LONG})
  if(apart)
    list(JOIN apart ":" apart)
    set(apart "-${apart}")
  endif()
  phasescope_add_test(${folder} ${folder}_test "${ARG_LABELS}" "${apart}")
  set(filter "${ARG_SLOW}")
  if(ARG_LONG)
    string(APPEND filter ":-${ARG_LONG}")
  endif()
  if(ARG_SLOW_PARTS)
    phasescope_add_parts(${folder}_slow ${folder}_test slow "${filter}" ${ARG_SLOW_PARTS})
  elseif(ARG_SLOW)
    phasescope_add_test(${folder}_slow ${folder}_test slow "${filter}")
  endif()
  if(ARG_LONG)
    phasescope_add_test(${folder}_long ${folder}_test long "${ARG_LONG}")
    set_tests_properties(${folder}_long PROPERTIES TIMEOUT 3600)
  endif()
  if("gpu" IN_LIST ARG_LABELS)
    set_property(GLOBAL APPEND PROPERTY PHASESCOPE_GPU_TESTS ${folder}_test)
  endif()
endfunction()
