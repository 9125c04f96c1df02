#include "model/encodings/sinusoidal.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& sinusoidal_info() {
  static const EncodingInfo info = {
      .key = "sinusoidal",
      .title = "Sinusoidal positions",
      .formula =
          "x_i + P_i, P_i[2m] = sin(i base^(-2m/C)), P_i[2m+1] = cos(the same); "
          "s_ij = q_i.k_j / sqrt(d)",
      .source = "arXiv 1706.03762, Section 3.5",
      .departure = "",
      .options =
          {{"base", 10000.0, "base of the frequencies base^(-2m/C)", {}, kAboveZero, kNoLimit}},
      .under_shift = {UnderShift::Kind::moves,
                      "what is added to the embeddings is of the place itself"},
      .has_state = false,
  };
  return info;
}

class Sinusoidal final : public Encoding {
 public:
  Sinusoidal(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (width_ % 2 != 0) {
      throw formats::bad_input(
          "sinusoidal fills pairs of channels, so the width must be even, but is " +
          std::to_string(width_));
    }
  }

  const EncodingInfo& info() const override { return sinusoidal_info(); }

  at::Tensor embed(const at::Tensor& x, const StartContext& context) const override {
    const at::Tensor places = position_values(context) * step_;
    return x + sinusoids(places, number("base"), width_).to(context.dtype);
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    return unrotated(q, k, state);
  }
};

std::unique_ptr<Encoding> make_sinusoidal(const Json& options, const ModelConfig& model) {
  return std::make_unique<Sinusoidal>(options, model);
}

}  // namespace

EncodingEntry sinusoidal_entry() { return {&sinusoidal_info(), &make_sinusoidal}; }

}  // namespace phasescope::model
