# phasescope_test_on_paths(folder FILTER): the cases of <folder>_test that FILTER matches once more on each
# code path that LibTorch, MKL and the kernels have for the processors of others, as far as this one has
# it: <folder>_on_default, <folder>_on_avx2, <folder>_on_avx512. Verdicts and tolerances must hold on all of
# them. The least path, and that of AVX2 on a processor that has more, are labelled slow; the others, which are
# about what the processor takes by itself, long.
set(processor_flags "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo processor_flags REGEX "^flags" LIMIT_COUNT 1)
endif()

function(phasescope_test_on_path folder filter path mkl simd label)
  set(name ${folder}_on_${path})
  phasescope_add_test(${name} ${folder}_test "${label}" "${filter}")
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ATEN_CPU_CAPABILITY=${path}
    MKL_CBWR=${mkl} PHASESCOPE_SIMD=${simd})
endfunction()

function(phasescope_test_on_paths folder filter)
  set(least scalar)
  if(PHASESCOPE_SIMD STREQUAL all AND processor_flags MATCHES " sse4_2" AND processor_flags MATCHES " aes")
    set(least sse4)
  endif()
  phasescope_test_on_path(${folder} "${filter}" default COMPATIBLE ${least} slow)
  if(processor_flags MATCHES " avx512f" AND processor_flags MATCHES " avx512vl")
    phasescope_test_on_path(${folder} "${filter}" avx2 AVX2 avx2 slow)
    phasescope_test_on_path(${folder} "${filter}" avx512 AVX512 avx3 long)
  elseif(processor_flags MATCHES " avx2")
    phasescope_test_on_path(${folder} "${filter}" avx2 AVX2 avx2 long)
  endif()
endfunction()
