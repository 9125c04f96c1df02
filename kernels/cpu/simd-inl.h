// Vectors, exp2, tanh, sine and cosine. Included once for every target (Highway's
// foreach_target.h).
#if defined(PHASESCOPE_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_SIMD_INL_H
#undef PHASESCOPE_CPU_SIMD_INL_H
#else
#define PHASESCOPE_CPU_SIMD_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using IntTag = hn::RebindToSigned<Tag>;
using Vec = hn::Vec<Tag>;
using LaneMask = hn::Mask<Tag>;

// Lanes are queries: a panel is kVecs vectors of them. 8 x 3 accumulators fill 32 registers with
// the operands beside them, 4 x 3 fill 16.
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
inline constexpr int kVecs = 3;
inline constexpr int kPanel = kVecs * kLanes;
inline constexpr int kTileKeys = kLanes >= 16 ? 8 : 4;
// Queries of a work item and keys of a block. Multiples of kPanel for every target.
inline constexpr int kQueryBlock = 192;
inline constexpr int kKeyBlock = 128;
inline constexpr int kPanels = kQueryBlock / kPanel;
static_assert(kPanels * kPanel == kQueryBlock && kKeyBlock % kTileKeys == 0);

// Whether the forward pass leaves out the vectors of a panel that causality hides from a tile of
// keys: three forms of a tile, worth compiling where a panel is wide.
inline constexpr bool kTriangles = kLanes >= 16;

// The forward pass is compiled with probes and without, but for the fallback, where those cost
// little beside the rest and compiling would cost as much as for any other target.
inline constexpr bool kCompilesWithoutProbes = HWY_TARGET != HWY_EMU128;

HWY_INLINE Vec set(float x) { return hn::Set(Tag(), x); }
HWY_INLINE Vec zero() { return hn::Zero(Tag()); }
HWY_INLINE Vec load(const float* p) { return hn::Load(Tag(), p); }
HWY_INLINE Vec load_unaligned(const float* p) { return hn::LoadU(Tag(), p); }
HWY_INLINE void store(Vec x, float* p) { hn::Store(x, Tag(), p); }
HWY_INLINE void store_unaligned(Vec x, float* p) { hn::StoreU(x, Tag(), p); }
/// 0, 1, 2, ... from `first` up.
HWY_INLINE Vec iota(float first) { return hn::Iota(Tag(), first); }
HWY_INLINE float sum_lanes(Vec x) { return hn::GetLane(hn::SumOfLanes(Tag(), x)); }

inline constexpr float kRoundingBias = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
// Bound of an angle reduced by pi, beyond pi/2 and its rounding: what was too large to be reduced
// is cut, or the polynomials would make infinities of it.
inline constexpr float kReducedMost = 2.0f;

/// The larger, or the smaller, of a bound and x; NaN stays NaN. x86's instructions give their
/// second operand then, EMU128's functions the one that is a number.
HWY_INLINE Vec at_least(float bound, Vec x) {
#if HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Lt(x, set(bound)), set(bound), x);
#else
  return hn::Max(set(bound), x);
#endif
}
HWY_INLINE Vec at_most(float bound, Vec x) {
#if HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Gt(x, set(bound)), set(bound), x);
#else
  return hn::Min(set(bound), x);
#endif
}

#if HWY_TARGET == HWY_AVX3
/// 2^x for x <= 127; exactly 0 below -126. With the instructions that AVX-512 has for it: x less
/// the next integer below, and a number times 2 to that integer. Degree 5, minimax on [0, 1] with
/// 2^0 = 1; relative error below 2.5e-7: 8.5e-8 with float coefficients, and the last roundings.
/// NaN gives NaN.
HWY_INLINE Vec exp2_any(Vec x) {
  constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const Vec f{_mm512_reduce_ps(x.raw, kDown)};
  Vec p = hn::MulAdd(set(0.00186713063f), f, set(0.0090170335f));
  p = hn::MulAdd(p, f, set(0.0557999089f));
  p = hn::MulAdd(p, f, set(0.240164474f));
  p = hn::MulAdd(p, f, set(0.693151295f));
  p = hn::MulAdd(p, f, set(1.0f));
  // Subnormal weights are 0, as without these instructions; true of NaN.
  const __mmask16 normal = _mm512_cmp_ps_mask(x.raw, set(-126.0f).raw, _CMP_NLT_UQ);
  return Vec{_mm512_maskz_scalef_ps(normal, p.raw, x.raw)};
}

/// sum + p x, p = exp2_any(x); of p = 0 nothing, whatever x is.
HWY_INLINE Vec add_times_power(Vec p, Vec x, Vec sum) {
  const __mmask16 normal = _mm512_cmp_ps_mask(x.raw, set(-126.0f).raw, _CMP_NLT_UQ);
  return Vec{_mm512_mask3_fmadd_ps(p.raw, x.raw, sum.raw, normal)};
}
#else
/// 2^x for x <= 127; exactly 0 below -126.5. Degree 5, minimax on [-1/2, 1/2]; relative error below
/// 2.5e-7: 7.7e-8, 1.6e-7 with float coefficients (2^0 is 1 + 2^-23), and the last roundings. NaN
/// gives NaN.
HWY_INLINE Vec exp2_any(Vec x) {
  const IntTag di;
  x = at_least(-127, x);
  const Vec shifted = hn::Add(x, set(kRoundingBias));
  const Vec f = hn::Sub(x, hn::Sub(shifted, set(kRoundingBias)));
  Vec p = hn::MulAdd(set(0.00132764823f), f, set(0.0096755453f));
  p = hn::MulAdd(p, f, set(0.0555071328f));
  p = hn::MulAdd(p, f, set(0.240221197f));
  p = hn::MulAdd(p, f, set(0.693146967f));
  p = hn::MulAdd(p, f, set(1.00000007f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const Vec power = hn::BitCast(Tag(), hn::Add(exponent, hn::Set(di, 0x3F800000)));
  return hn::Mul(p, power);
}

/// sum + p x, p = exp2_any(x); of p = 0 nothing, whatever x is.
HWY_INLINE Vec add_times_power(Vec p, Vec x, Vec sum) {
  return hn::MulAdd(p, at_least(-127, x), sum);
}
#endif

/// Relative error 3e-7 (four roundings and a polynomial of 4e-9). NaN gives NaN.
HWY_INLINE Vec hyperbolic_tangent(Vec x) {
  const Vec size = hn::Abs(x);
  // Near 0 odd, x + x^3 p(x^2), minimax on [-0.625, 0.625]: 1 - 2 / (1 + e^2x) would cancel.
  const Vec y = hn::Mul(x, x);
  Vec p = hn::MulAdd(set(-0.005704986926f), y, set(0.020639087158f));
  p = hn::MulAdd(p, y, set(-0.053739715048f));
  p = hn::MulAdd(p, y, set(0.133314421976f));
  p = hn::MulAdd(p, y, set(-0.333332819420f));
  const Vec near = hn::MulAdd(hn::Mul(p, y), x, x);
  // e^2x overflows nothing: from 18 on the result is 1.
  const Vec e = exp2_any(at_most(60, hn::Mul(size, set(2.88539008f))));
  const Vec far = hn::Sub(set(1.0f), hn::Div(set(2.0f), hn::Add(e, set(1.0f))));
  return hn::IfThenElse(hn::Lt(size, set(0.625f)), near, hn::CopySign(far, x));
}

/// x - n pi for the n nearest, n's parity as a sign bit: |x| up to 2.5e4 (n < 2^13) is reduced with
/// an absolute error below 1e-7. Fused multiply-adds round once, and x less n times pi's nearest
/// float is a float: two parts of pi do. Without them pi comes in four parts of 11 bits each, so
/// that every n * part is exact. From |x| of 1e7 on the result may be any number.
HWY_INLINE Vec reduce_by_pi(Vec x, Vec& sign) {
  const IntTag di;
  const Vec shifted = hn::MulAdd(x, set(0.318309886f), set(kRoundingBias));
  const Vec n = hn::Sub(shifted, set(kRoundingBias));
#if HWY_NATIVE_FMA
  const Vec r = hn::NegMulAdd(n, set(-8.74227766e-08f), hn::NegMulAdd(n, set(3.14159274f), x));
#else
  Vec r = hn::NegMulAdd(n, set(3.140625f), x);
  r = hn::NegMulAdd(n, set(0.0009675025939941406f), r);
  r = hn::NegMulAdd(n, set(1.5099067240953445e-07f), r);
  r = hn::NegMulAdd(n, set(5.126688303e-12f), r);
#endif
  sign = hn::BitCast(Tag(), hn::ShiftLeft<31>(hn::BitCast(di, shifted)));
  return r;
}

/// cos r of y = r^2, |r| up to pi/2: even polynomial of degree 10, exactly 1 at 0; minimax among
/// those whose second coefficient is -1/2, 4.4e-10 with float coefficients.
HWY_INLINE Vec cosine_polynomial(Vec y) {
  Vec p = hn::MulAdd(set(-2.620901966565725e-07f), y, set(2.4770179152255878e-05f));
  p = hn::MulAdd(p, y, set(-0.001388858538120985f));
  p = hn::MulAdd(p, y, set(0.041666656732559204f));
  p = hn::MulAdd(p, y, set(-0.5f));
  return hn::MulAdd(p, y, set(1.0f));
}

/// Cosine in radians, absolute error below 2e-7 for |x| <= 2.5e4 (of the float it is given), within
/// [-1, 1] for every finite x. Infinity and NaN give NaN.
HWY_INLINE Vec cosine(Vec x) {
  Vec sign;
  const Vec r = reduce_by_pi(x, sign);
  return hn::Xor(cosine_polynomial(at_most(kReducedMost * kReducedMost, hn::Mul(r, r))), sign);
}

/// Sine and cosine together, same range and errors; of |x| < pi/2 the sine's relative error is
/// below 2e-7. Odd polynomial of degree 9, minimax on [-pi/2, pi/2], 5.0e-9 with float
/// coefficients.
HWY_INLINE void sine_cosine(Vec x, Vec& sine, Vec& cosine_out) {
  Vec sign;
  const Vec r = at_least(-kReducedMost, at_most(kReducedMost, reduce_by_pi(x, sign)));
  const Vec y = hn::Mul(r, r);
  Vec s = hn::MulAdd(set(2.5988933884946164e-06f), y, set(-0.00019806044292636216f));
  s = hn::MulAdd(s, y, set(0.008333008736371994f));
  s = hn::MulAdd(s, y, set(-0.16666656732559204f));
  s = hn::MulAdd(hn::Mul(s, y), r, r);
  cosine_out = hn::Xor(cosine_polynomial(y), sign);
  sine = hn::Xor(s, sign);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
