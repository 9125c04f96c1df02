#pragma once
// Which instruction sets the CPU kernels are compiled for, and which one runs. Highway compiles
// each kernel file once a target (foreach_target.h); the choice is made here, so that Highway stays
// a header and nothing has to be linked or shipped.

// Those that are compiled: bit n is the Target numbered n below. A build for one processor gives
// those that it runs (PHASESCOPE_SIMD, PHASESCOPE_SIMD_ALONE of kernels/CMakeLists.txt).
#ifndef PHASESCOPE_TARGETS
#define PHASESCOPE_TARGETS 15
#endif

// SSE4, and wider subsets that give other code for what is used here. Where a processor has none of
// them, Highway's EMU128: four lanes like SSE4, in the instructions that every program may use.
// (The fault of GCC before 12.3 for which Highway leaves it out is in the upper halves of integer
// products, which nothing here takes.)
// Later versions have SSE2 too, by the bit 14, which would stand for it. SVE's vectors have no size
// that arrays of them could have; NEON runs where it is.
#define HWY_DISABLED_TARGETS                                                           \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | (1LL << 14) |         \
   (PHASESCOPE_TARGETS & 2 ? 0 : HWY_SSE4) | (PHASESCOPE_TARGETS & 4 ? 0 : HWY_AVX2) | \
   (PHASESCOPE_TARGETS & 8 ? 0 : HWY_AVX3))
#define HWY_BROKEN_EMU128 0

// Whether the target that is being compiled will run. Highway always compiles the least one.
#define PHASESCOPE_TARGET_RUNS (HWY_TARGET != HWY_EMU128 || PHASESCOPE_TARGETS & 1)

namespace phasescope::kernels {

/// From the least to the best. Other processors than x86-64 have one, NEON on aarch64, which goes
/// by the least name.
enum class Target { scalar, sse4, avx2, avx3 };
inline constexpr Target kTargets[] = {Target::scalar, Target::sse4, Target::avx2, Target::avx3};

/// The target called `wanted`, or this processor's best where that is null or empty. Throws
/// std::invalid_argument where the processor, or a build for one alone, has none of that name.
Target best_target(const char* wanted);

/// The best target of this processor, unless choose_target() or the environment variable
/// PHASESCOPE_SIMD (scalar, sse4, avx2, avx3) named a lesser one. Throws std::invalid_argument for
/// another name.
Target current_target();

/// For tests and benchmarks: false when the processor has no such target.
bool choose_target(Target target);

const char* target_name(Target target);

}  // namespace phasescope::kernels

// `function` of a target where it is compiled and the current one, else `lesser`.
#if PHASESCOPE_TARGETS & 8
#define PHASESCOPE_AVX3_OR(function, lesser) \
  (current_target() == Target::avx3 ? &N_AVX3::function : lesser)
#else
#define PHASESCOPE_AVX3_OR(function, lesser) lesser
#endif
#if PHASESCOPE_TARGETS & 4
#define PHASESCOPE_AVX2_OR(function, lesser) \
  (current_target() == Target::avx2 ? &N_AVX2::function : lesser)
#else
#define PHASESCOPE_AVX2_OR(function, lesser) lesser
#endif
#if PHASESCOPE_TARGETS & 2
#define PHASESCOPE_SSE4_OR(function, lesser) \
  (current_target() == Target::sse4 ? &N_SSE4::function : lesser)
#else
#define PHASESCOPE_SSE4_OR(function, lesser) lesser
#endif
#if PHASESCOPE_TARGETS & 1
#define PHASESCOPE_LEAST(function) &N_EMU128::function
#else
#define PHASESCOPE_LEAST(function) nullptr  // the current target is one of those above
#endif

/// In the HWY_ONCE part of a kernel file: the instance of `function` for the current target.
#if defined(__x86_64__) || defined(_M_X64)
#define PHASESCOPE_SELECT_TARGET(function) \
  PHASESCOPE_AVX3_OR(                      \
      function,                            \
      PHASESCOPE_AVX2_OR(function, PHASESCOPE_SSE4_OR(function, PHASESCOPE_LEAST(function))))
#else
#define PHASESCOPE_SELECT_TARGET(function) (&HWY_STATIC_DISPATCH(function))
#endif
