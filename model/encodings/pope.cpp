#include "model/encodings/pope.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <numbers>

#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& pope_info() {
  static const EncodingInfo info = {
      .key = "pope",
      .title = "PoPE (polar coordinates)",
      .formula =
          "s_ij = sum_c softplus(q_ic) softplus(k_jc) cos((j - i) base^(-c/d) + delta_hc) / "
          "sqrt(d)",
      .source =
          "Gopalakrishnan et al. 2025, Decoupling the \"What\" and \"Where\" With Polar Coordinate "
          "Positional Embeddings, arXiv 2509.10534",
      .departure = "",
      .options = {base_option("base of the frequencies base^(-c/d), one a channel")},
      .under_shift = {UnderShift::Kind::stays,
                      "a pair is turned by the difference of its positions alone"},
      .has_state = false,
  };
  return info;
}

// Sizes softplus(x) (B, H, N, d) at phases of cosines and sines `turn` (.., N, 2, d): their points
// in the plane, (B, H, N, 2 d).
at::Tensor in_plane(const at::Tensor& x, const at::Tensor& turn) {
  const at::Tensor size = at::softplus(x);
  return at::cat({size * turn.select(-2, 0), size * turn.select(-2, 1)}, -1);
}

class Pope final : public Encoding {
 public:
  Pope(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return pope_info(); }

  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "delta",
             .shape = {heads_, head_dim_},
             .init = ParameterSpec::Init::zeros,
             .decays = false}};
  }

  // The state's table is the turn of every channel, (B or 1, 1, N, 2, d).
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, {}};
    // Twice as many channels have as many planes as this has phases.
    const at::Tensor frequencies =
        rope_frequencies(number("base"), 2 * head_dim_, context.angle_options()) * step_;
    state.table = rotation_state(position_values(context), frequencies, context.dtype);
    return state;
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    // The query's phase is behind by delta, (H, 1, d).
    const at::Tensor delta = layer.at("delta").to(state.table.scalar_type()).unsqueeze(1);
    const at::Tensor c = state.table.select(-2, 0), s = state.table.select(-2, 1);
    const at::Tensor behind =
        at::stack({c * delta.cos() + s * delta.sin(), s * delta.cos() - c * delta.sin()}, -2);
    program.transform(in_plane(q, behind), in_plane(k, state.table));
    return program;
  }

  // The range that the paper keeps it in.
  void constrain(Parameters& layer) const override {
    const at::NoGradGuard no_grad;
    layer.at("delta").clamp_(-2 * std::numbers::pi, 0);
  }

  // Twice the channels in the products of scores.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {rotation_cost(s), score_cost("products of twice the channels", s, 2 * s.head_dim)};
  }
};

std::unique_ptr<Encoding> make_pope(const Json& options, const ModelConfig& model) {
  return std::make_unique<Pope>(options, model);
}

}  // namespace

EncodingEntry pope_entry() { return {&pope_info(), &make_pope}; }

}  // namespace phasescope::model
