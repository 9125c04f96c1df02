// Sums of scores and of their squares, lane by lane.
#if defined(PHASESCOPE_CPU_MOMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_MOMENTS_INL_H
#undef PHASESCOPE_CPU_MOMENTS_INL_H
#else
#define PHASESCOPE_CPU_MOMENTS_INL_H
#endif

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// Of scores, content scores or positional terms, in float64: a deviation is what is left of a mean
/// square less a squared mean, and where a bias is large beside the spread of scores (ALiBi far
/// away: -1000 and 1), squares that were rounded to float32 leave nothing right of it.
struct Moments {
  using Tag64 = hn::Repartition<double, Tag>;
  using Vec64 = hn::Vec<Tag64>;
  static constexpr int kLanes64 = kLanes / 2;
  Vec64 sum[2], square[2];

  // By hand: what the compiler writes itself is not for the target.
  HWY_INLINE Moments()
      : sum{hn::Zero(Tag64()), hn::Zero(Tag64())}, square{hn::Zero(Tag64()), hn::Zero(Tag64())} {}
  HWY_INLINE void add(const float* t) {
    const hn::Half<Tag> half;
    for (int n = 0; n < 2; ++n) {
      const Vec64 wide = hn::PromoteTo(Tag64(), hn::Load(half, t + n * kLanes64));
      sum[n] = hn::Add(sum[n], wide);
      square[n] = hn::MulAdd(wide, wide, square[n]);
    }
  }
  HWY_INLINE void add_to(double* sums, double* squares) const {
    const auto put = [](Vec64 x, double* at) {
      hn::StoreU(hn::Add(hn::LoadU(Tag64(), at), x), Tag64(), at);
    };
    for (int n = 0; n < 2; ++n) {
      put(sum[n], sums + n * kLanes64);
      put(square[n], squares + n * kLanes64);
    }
  }
  static double total(const Vec64 (&x)[2]) {
    HWY_ALIGN double lanes[kLanes64];
    hn::Store(hn::Add(x[0], x[1]), Tag64(), lanes);
    double all = 0;
    for (const double lane : lanes) all += lane;
    return all;
  }
  double total_sum() const { return total(sum); }
  double total_square() const { return total(square); }
};

/// The same at less than half the work, of at most a block's keys a lane: float32 sums of what they
/// differ by from one of them, and of its square. Exact to 1e-5 of the largest square, which says
/// something of a deviation only where all of a lane are scores of one bucket or distance; of
/// differences beyond 1e19 squares are infinite.
struct ShiftedMoments {
  Vec shift, sum, square;

  HWY_INLINE void add(Vec t) {
    const Vec d = hn::Sub(t, shift);
    sum = hn::Add(sum, d);
    square = hn::MulAdd(d, d, square);
  }
  /// Only lanes that are not `hidden`.
  HWY_INLINE void add_unless(LaneMask hidden, Vec t) {
    const Vec d = hn::IfThenZeroElse(hidden, hn::Sub(t, shift));
    sum = hn::Add(sum, d);
    square = hn::MulAdd(d, d, square);
  }
  /// Adds the moments themselves of `count` scores a lane; nothing of lanes that are `hidden`.
  HWY_INLINE void add_to(Vec count, LaneMask hidden, Moments& moments) const {
    const hn::Half<Tag> half;
    const auto part = [&](Vec x, int n) {
      x = hn::IfThenZeroElse(hidden, x);
      return hn::PromoteTo(Moments::Tag64(),
                           n == 0 ? hn::LowerHalf(half, x) : hn::UpperHalf(half, x));
    };
    for (int n = 0; n < 2; ++n) {
      const auto c = part(shift, n), s = part(sum, n);
      const auto all = hn::MulAdd(part(count, n), c, s);  // sum t
      moments.sum[n] = hn::Add(moments.sum[n], all);
      // sum t^2 = sum d^2 + 2 c sum d + count c^2
      moments.square[n] =
          hn::Add(moments.square[n], hn::MulAdd(c, hn::Add(all, s), part(square, n)));
    }
  }
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
