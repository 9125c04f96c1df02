// Clamped distances: keys beyond a head's limit are read as if they stood at it, by a second set of
// q and k (q turned by the limit, k by nothing). Both dot products are made of every tile: 1.5
// times plain's arithmetic, where changing scores by tensor operations takes N x N numbers.
#if defined(PHASESCOPE_VARIANTS_CLAMP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_CLAMP_INL_H
#undef PHASESCOPE_VARIANTS_CLAMP_INL_H
#else
#define PHASESCOPE_VARIANTS_CLAMP_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// s = scale q.k up to the limit, scale far_q.far_k beyond.
class ClampScore : public VariantDefaults {
 public:
  static constexpr int kDots = 2;
  struct Head {
    float limit;  ///< of lambda, exact: distances in use are below 2^24
  };

  explicit ClampScore(const AttentionInputs& inputs)
      : VariantDefaults(inputs), clamp_(std::get<ClampVariant>(inputs.variant)) {}

  DotStream dot(int n) const {
    if (n == 0) return VariantDefaults::dot(0);
    return {clamp_.q, clamp_.k, inputs_.shape.head_dim, inputs_.scale};
  }

  Head head(std::int64_t, std::int64_t head) const {
    return {static_cast<float>(std::min(clamp_.limits[head], std::int64_t{1} << 24))};
  }

  HWY_INLINE void score(const Head& head, const TilePlace& place, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&far)[kTileKeys][kVecs]) const {
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        t[r][v] =
            hn::IfThenElse(is_far(head, place, r, v), hn::Mul(far[r][v], set(kLog2e)), t[r][v]);
      }
    }
  }

  /// To the dot product that was read.
  HWY_INLINE DotGradients gradient(const Head& head, const Tile&, const TilePlace& place, int r,
                                   int v, Vec d_score, Vec, Vec, float*) const {
    const LaneMask far = is_far(head, place, r, v);
    return {hn::IfThenZeroElse(far, d_score), hn::IfThenElseZero(far, d_score)};
  }

  OutputTensor dot_gradient_q(const Gradients& gradients, int n) const {
    return n == 0 ? gradients.dq : far_gradients(gradients).dq;
  }
  OutputTensor dot_gradient_k(const Gradients& gradients, int n) const {
    return n == 0 ? gradients.dk : far_gradients(gradients).dk;
  }

 private:
  static HWY_INLINE LaneMask is_far(const Head& head, const TilePlace& place, int r, int v) {
    const std::int64_t lambda = place.query - place.key - r + v * kLanes;
    return hn::Gt(iota(static_cast<float>(lambda)), set(head.limit));
  }
  static const ClampGradients& far_gradients(const Gradients& gradients) {
    return std::get<ClampGradients>(gradients.variant);
  }

  const ClampVariant& clamp_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
