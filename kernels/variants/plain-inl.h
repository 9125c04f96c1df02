// Variants without a score transform: plain (none, rope, xpos, ape), and tape's second value
// stream.
#if defined(PHASESCOPE_VARIANTS_PLAIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_PLAIN_INL_H
#undef PHASESCOPE_VARIANTS_PLAIN_INL_H
#else
#define PHASESCOPE_VARIANTS_PLAIN_INL_H
#endif

#include "kernels/cpu/streams-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// s = scale q.k
class PlainScore : public VariantDefaults {
 public:
  using VariantDefaults::VariantDefaults;
};

/// s = scale q.k, the weights average v and the tokens' positional states.
class TapeScore : public VariantDefaults {
 public:
  using VariantDefaults::VariantDefaults;
  static constexpr int kValues = 2;

  ValueStream value(int n) const {
    if (n == 0) return VariantDefaults::value(0);
    const auto& tape = std::get<TapeVariant>(inputs_.variant);
    return {tape.state, tape.state_dim};
  }
};

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
