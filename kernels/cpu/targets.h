#pragma once
// Which instruction sets the CPU kernels are compiled for, and which one runs. Highway compiles
// each kernel file once a target (foreach_target.h); the choice is made here, so that Highway stays
// a header and nothing has to be linked or shipped.

// SSE4, and wider subsets that give other code for what is used here. Where a processor has none of
// them, Highway's EMU128: four lanes like SSE4, in the instructions that every program may use.
// (The fault of GCC before 12.3 for which Highway leaves it out is in the upper halves of integer
// products, which nothing here takes.)
// Later versions have SSE2 too, by the bit 14, which would stand for it. SVE's vectors have no size
// that arrays of them could have; NEON runs where it is. A build for one processor
// (PHASESCOPE_SIMD of CMake) has EMU128 and what that one runs; with AVX-512 AVX2 too, because a
// folder that several machines share may be built on the best of them. One for that processor alone
// (PHASESCOPE_SIMD_ALONE) has what it runs and nothing else.
#if defined(PHASESCOPE_FOR_SSE4)
#define PHASESCOPE_OTHER_TARGETS (HWY_AVX2 | HWY_AVX3)
#elif defined(PHASESCOPE_FOR_AVX2)
#define PHASESCOPE_OTHER_TARGETS (HWY_SSE4 | HWY_AVX3)
#elif defined(PHASESCOPE_FOR_AVX3) && defined(PHASESCOPE_ALONE)
#define PHASESCOPE_OTHER_TARGETS (HWY_SSE4 | HWY_AVX2)
#elif defined(PHASESCOPE_FOR_AVX3)
#define PHASESCOPE_OTHER_TARGETS HWY_SSE4
#else
#define PHASESCOPE_OTHER_TARGETS 0
#endif
#define HWY_DISABLED_TARGETS                                                   \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | (1LL << 14) | \
   PHASESCOPE_OTHER_TARGETS)
#define HWY_BROKEN_EMU128 0

// Whether the target that is being compiled will run. Highway always compiles the least one.
#if defined(PHASESCOPE_ALONE)
#define PHASESCOPE_TARGET_RUNS (HWY_TARGET != HWY_EMU128)
#else
#define PHASESCOPE_TARGET_RUNS 1
#endif

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

/// In the HWY_ONCE part of a kernel file: the instance of `function` for the current target.
#if defined(PHASESCOPE_ALONE) && defined(PHASESCOPE_FOR_SSE4)
#define PHASESCOPE_SELECT_TARGET(function) (&N_SSE4::function)
#elif defined(PHASESCOPE_ALONE) && defined(PHASESCOPE_FOR_AVX2)
#define PHASESCOPE_SELECT_TARGET(function) (&N_AVX2::function)
#elif defined(PHASESCOPE_ALONE)
#define PHASESCOPE_SELECT_TARGET(function) (&N_AVX3::function)
#elif defined(PHASESCOPE_FOR_SSE4)
#define PHASESCOPE_SELECT_TARGET(function) \
  (current_target() == Target::sse4 ? &N_SSE4::function : &N_EMU128::function)
#elif defined(PHASESCOPE_FOR_AVX2)
#define PHASESCOPE_SELECT_TARGET(function) \
  (current_target() == Target::avx2 ? &N_AVX2::function : &N_EMU128::function)
#elif defined(PHASESCOPE_FOR_AVX3)
#define PHASESCOPE_SELECT_TARGET(function)                \
  (current_target() == Target::avx3   ? &N_AVX3::function \
   : current_target() == Target::avx2 ? &N_AVX2::function \
                                      : &N_EMU128::function)
#elif defined(__x86_64__) || defined(_M_X64)
#define PHASESCOPE_SELECT_TARGET(function)                \
  (current_target() == Target::avx3   ? &N_AVX3::function \
   : current_target() == Target::avx2 ? &N_AVX2::function \
   : current_target() == Target::sse4 ? &N_SSE4::function \
                                      : &N_EMU128::function)
#else
#define PHASESCOPE_SELECT_TARGET(function) (&HWY_STATIC_DISPATCH(function))
#endif
