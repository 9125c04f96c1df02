#include "model/encodings/sinusoidal_2d.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& sinusoidal_2d_info() {
  static const EncodingInfo info = {
      .key = "sinusoidal_2d",
      .title = "Sinusoidal positions on a grid",
      .formula =
          "x_i + [P(i div columns), P(i mod columns)], P sinusoidal of half the width; "
          "s_ij = q_i.k_j / sqrt(d)",
      .source = "arXiv 1706.03762, Section 3.5, half the width for each axis",
      .departure = "",
      .options = {{"base", 10000.0, "base of the frequencies", {}, kAboveZero, kNoLimit},
                  {"columns", 16, "of the grid: position ids run along its rows", {}, 1, 1e9}},
      .under_shift = {UnderShift::Kind::moves,
                      "what is added to the embeddings is of the place itself"},
      .has_state = false,
      .places = Places::grid,
  };
  return info;
}

class Sinusoidal2d final : public Encoding {
 public:
  Sinusoidal2d(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    refuse_interpolation("sinusoidal_2d");
    if (width_ % 4 != 0) {
      throw formats::bad_input(
          "sinusoidal_2d fills pairs of channels for two axes, so the width must divide by 4, but "
          "is " +
          std::to_string(width_));
    }
  }

  const EncodingInfo& info() const override { return sinusoidal_2d_info(); }

  at::Tensor embed(const at::Tensor& x, const StartContext& context) const override {
    const at::Tensor ids = position_ids(context);
    const std::int64_t columns = integer("columns");
    const auto axis = [&](const at::Tensor& place) {
      return sinusoids(place.to(context.angle_dtype), number("base"), width_ / 2);
    };
    return x + at::cat({axis(ids.floor_divide(columns)), axis(ids.remainder(columns))}, -1)
                   .to(context.dtype);
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    return unrotated(q, k, state);
  }
};

std::unique_ptr<Encoding> make_sinusoidal_2d(const Json& options, const ModelConfig& model) {
  return std::make_unique<Sinusoidal2d>(options, model);
}

}  // namespace

EncodingEntry sinusoidal_2d_entry() { return {&sinusoidal_2d_info(), &make_sinusoidal_2d}; }

}  // namespace phasescope::model
