#pragma once
// Which instruction sets the CPU kernels are compiled for, and which one runs. Highway compiles
// each kernel file once a target (foreach_target.h); the choice is made here, so that Highway stays
// a header and nothing has to be linked or shipped.

// SSE4 is the least a processor must have. Wider subsets give the same code for what is used here.
#define HWY_WANT_SSE4 1
#define HWY_DISABLED_TARGETS HWY_SSSE3

namespace phasescope::kernels {

enum class Target { sse4, avx2, avx3 };

/// The best target of this processor, unless choose_target() or the environment variable
/// PHASESCOPE_SIMD (sse4, avx2, avx3) named a lesser one.
Target current_target();

/// For tests and benchmarks: false when the processor has no such target.
bool choose_target(Target target);

const char* target_name(Target target);

}  // namespace phasescope::kernels

/// In the HWY_ONCE part of a kernel file: the instance of `function` for the current target.
#if defined(__x86_64__) || defined(_M_X64)
#define PHASESCOPE_SELECT_TARGET(function)                \
  (current_target() == Target::avx3   ? &N_AVX3::function \
   : current_target() == Target::avx2 ? &N_AVX2::function \
                                      : &N_SSE4::function)
#else
#define PHASESCOPE_SELECT_TARGET(function) (&HWY_STATIC_DISPATCH(function))
#endif
