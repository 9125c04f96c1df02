// Sums of a panel's rows along their diagonals: what goes by distance.
//
// Versions, the backward pass of CAPE and of a table at 8192 tokens: each row added to the sums
// where its distances lie: a load waits for the two stores before it that it overlaps.
#if defined(PHASESCOPE_CPU_DIAGONALS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_DIAGONALS_INL_H
#undef PHASESCOPE_CPU_DIAGONALS_INL_H
#else
#define PHASESCOPE_CPU_DIAGONALS_INL_H
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

HWY_INLINE void add_unaligned(float* at, Vec x) {
  store_unaligned(hn::Add(load_unaligned(at), x), at);
}

/// kLanes rows: lane n of row r to to[n - r]. Sums of kLanes neighbouring distances are made in a
/// register, from a vector of each row that begins a lane further than the row's before; those at
/// both ends of the rows reach past them, where lanes are left out.
HWY_INLINE void add_whole_diagonals(const float* x, std::int64_t pitch, float* to) {
  Vec sums[kVecs - 1];
  Vec before = zero(), last = load(x + kPanel - kLanes);
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kVecs; ++v) sums[v] = load(x + v * kLanes);
#pragma GCC unroll 16
  for (int r = 1; r < kLanes; ++r) {
    const float* row = x + r * pitch + r;
    const LaneMask within = hn::FirstN(Tag(), static_cast<std::size_t>(kLanes - r));
    before = hn::Add(before, hn::IfThenZeroElse(within, load_unaligned(row - kLanes)));
#pragma GCC unroll 4
    for (int v = 0; v + 1 < kVecs; ++v) {
      sums[v] = hn::Add(sums[v], load_unaligned(row + v * kLanes));
    }
    last = hn::Add(last, hn::IfThenElseZero(within, load_unaligned(row + kPanel - kLanes)));
  }
  add_unaligned(to - kLanes, before);
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kVecs; ++v) add_unaligned(to + v * kLanes, sums[v]);
  add_unaligned(to + kPanel - kLanes, last);
}

/// Adds `rows` rows of a panel, `pitch` floats apart: lane n of row r to to[n - r]. What lies
/// kLanes floats before and behind each row is read too.
inline HWY_NOINLINE void add_diagonals(const float* x, std::int64_t pitch, std::int64_t rows,
                                       float* to) {
  std::int64_t r = 0;
  for (; r + kLanes <= rows; r += kLanes) add_whole_diagonals(x + r * pitch, pitch, to - r);
  for (; r < rows; ++r) {
    for (int v = 0; v < kVecs; ++v) {
      add_unaligned(to - r + v * kLanes, load(x + r * pitch + v * kLanes));
    }
  }
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
