# phasescope_test_on_paths(folder FILTER): the cases of <folder>_test that FILTER matches once more on each
# code path that LibTorch, MKL and the kernels have for the processors of others, as far as this one has
# it: <folder>_on_default, <folder>_on_avx2, <folder>_on_avx512. Verdicts and tolerances must hold on all of
# them. The least path is labelled slow. On a processor that has more than AVX2 every other case of it is, and of
# AVX2's path those between: each case runs on two paths, the processor's own and a lesser one. The other halves
# (<folder>_on_default_rest, <folder>_on_avx2_rest), and the paths that are about what the processor takes by
# itself, are long.
set(processor_flags "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo processor_flags REGEX "^flags" LIMIT_COUNT 1)
endif()

function(phasescope_test_on_path name program filter path mkl simd label)
  phasescope_add_test(${name} ${program} "${label}" "${filter}")
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ATEN_CPU_CAPABILITY=${path}
    MKL_CBWR=${mkl} PHASESCOPE_SIMD=${simd} ${ARGN})
endfunction()

function(phasescope_test_halves_on_path folder filter path mkl simd half)
  math(EXPR other "1 - ${half}")
  set(name ${folder}_on_${path})
  phasescope_test_on_path(${name} ${folder}_test "${filter}" ${path} ${mkl} ${simd} slow
    GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=${half})
  phasescope_test_on_path(${name}_rest ${folder}_test "${filter}" ${path} ${mkl} ${simd} long
    GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=${other})
endfunction()

function(phasescope_test_on_paths folder filter)
  set(least scalar)
  if(PHASESCOPE_SIMD STREQUAL all AND processor_flags MATCHES " sse4_2" AND processor_flags MATCHES " aes")
    set(least sse4)
  endif()
  set(name ${folder}_on)
  set(program ${folder}_test)
  if(processor_flags MATCHES " avx512f" AND processor_flags MATCHES " avx512vl")
    phasescope_test_halves_on_path(${folder} "${filter}" default COMPATIBLE ${least} 0)
    phasescope_test_halves_on_path(${folder} "${filter}" avx2 AVX2 avx2 1)
    phasescope_test_on_path(${name}_avx512 ${program} "${filter}" avx512 AVX512 avx3 long)
    return()
  endif()
  phasescope_test_on_path(${name}_default ${program} "${filter}" default COMPATIBLE ${least} slow)
  if(processor_flags MATCHES " avx2")
    phasescope_test_on_path(${name}_avx2 ${program} "${filter}" avx2 AVX2 avx2 long)
  endif()
endfunction()
