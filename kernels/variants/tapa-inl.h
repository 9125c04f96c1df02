// TAPA (arXiv 2509.12635): the content score times the cosine of a phase that grows with distance.
#if defined(PHASESCOPE_VARIANTS_TAPA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_TAPA_INL_H
#undef PHASESCOPE_VARIANTS_TAPA_INL_H
#else
#define PHASESCOPE_VARIANTS_TAPA_INL_H
#endif

#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/streams-inl.h"
#include "kernels/variants/tapa_linear.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// s = a cos(power[|lambda|] phi), both a and phi dot products: the phase scale_phase (qP.kP).
class TapaScore : public VariantDefaults {
 public:
  static constexpr int kDots = 2;
  static constexpr bool kReadsDots = true;
  struct Head {
    const float* power;  ///< at distance 0
  };

  explicit TapaScore(const AttentionInputs& inputs)
      : VariantDefaults(inputs),
        tapa_(std::get<TapaVariant>(inputs.variant)),
        range_(distance_range(inputs.shape, kPanel)),
        power_(padded_power(tapa_, range_)) {}

  DotStream dot(int n) const {
    const std::int64_t content = tapa_.content_dim;
    if (n == 0) return {inputs_.q, inputs_.k, content, tapa_.scale_content};
    return {skip_channels(inputs_.q, content), skip_channels(inputs_.k, content),
            inputs_.shape.head_dim - content, tapa_.scale_phase};
  }

  Head head(std::int64_t, std::int64_t) const { return {power_.data() - range_.first}; }

  HWY_INLINE void score(const Head& head, const TilePlace& place, Vec (&t)[kTileKeys][kVecs],
                        const Vec (&phase)[kTileKeys][kVecs]) const {
    const float* power = head.power + (place.query - place.key);
#pragma GCC unroll 8
    for (int r = 0; r < kTileKeys; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const Vec angle = hn::Mul(load_unaligned(power - r + v * kLanes), phase[r][v]);
        t[r][v] = hn::Mul(t[r][v], cosine(angle));
      }
    }
  }

  /// d a = d s cos(angle); d phi = -d s a power sin(angle).
  HWY_INLINE DotGradients gradient(const Head& head, const Tile&, const TilePlace& place, int r,
                                   int v, Vec d_score, Vec a, Vec phase, float*) const {
    const Vec power = load_unaligned(head.power + (place.query - place.key - r + v * kLanes));
    Vec sine, cosine;
    sine_cosine(hn::Mul(power, phase), sine, cosine);
    const Vec amplitude = hn::Mul(hn::Mul(a, set(-kLn2)), hn::Mul(power, sine));
    return {hn::Mul(d_score, cosine), hn::Mul(d_score, amplitude)};
  }

  OutputTensor dot_gradient_q(const Gradients& gradients, int n) const {
    return n == 0 ? gradients.dq : skip_channels(gradients.dq, tapa_.content_dim);
  }
  OutputTensor dot_gradient_k(const Gradients& gradients, int n) const {
    return n == 0 ? gradients.dk : skip_channels(gradients.dk, tapa_.content_dim);
  }

 protected:
  const TapaVariant& tapa_;

 private:
  DistanceRange range_;
  FloatBuffer power_;
};

/// The ablation's phase scale_phase (sum qP + sum kP), as a dot product of two channels:
/// (sum qP, 1).(1, sum kP).
class TapaLinearScore : public TapaScore {
 public:
  explicit TapaLinearScore(const AttentionInputs& inputs) : TapaScore(inputs), linear_(inputs) {}

  DotStream dot(int n) const { return n == 0 ? TapaScore::dot(0) : linear_.dot(); }

  void begin_gradients(const Gradients&, std::int64_t) { linear_.begin_gradients(); }
  void finish_gradients(const Gradients& gradients) { linear_.finish_gradients(gradients); }
  OutputTensor dot_gradient_q(const Gradients& gradients, int n) const {
    return n == 0 ? gradients.dq : linear_.dq();
  }
  OutputTensor dot_gradient_k(const Gradients& gradients, int n) const {
    return n == 0 ? gradients.dk : linear_.dk();
  }

 private:
  TapaLinearPhase linear_;
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
