#include "model/encodings/rope_nope.h"

#include <ATen/ATen.h>

#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& rope_nope_info() {
  static const EncodingInfo info = {
      .key = "rope_nope",
      .title = "RoPE with layers that have no positions",
      .formula =
          "s_ij = (R_i q_i).(R_j k_j) / sqrt(d); in every nope_every-th layer t_i q_i.k_j / "
          "sqrt(d), "
          "t_i = 1 + temperature ln(1 + floor((i + 1) / temperature_length))",
      .source =
          "layers: Yang et al. 2025, Rope to Nope and Back Again, arXiv 2501.18795; temperature: "
          "Llama 4's attention (Hugging Face "
          "transformers, model type llama4)",
      .departure = "",
      .options = {base_option(),
                  layout_option(),
                  {"nope_every", 4, "of so many layers the last one turns nothing", {}, 2, 1000},
                  {"temperature",
                   0.0,
                   "in those layers scores grow with the query's position; 0: not",
                   {},
                   0,
                   kNoLimit},
                  {"temperature_length",
                   64.0,
                   "positions from one step of the temperature to the next",
                   {},
                   kAboveZero,
                   kNoLimit}},
      .under_shift = {UnderShift::Kind::stays,
                      "a pair is turned by the difference of its positions alone, or not"},
      .has_state = true,
  };
  return info;
}

class RopeNope final : public Encoding {
 public:
  RopeNope(const Json& options, const ModelConfig& model)
      : Encoding(options, model), layout_(layout_of(options)) {
    require_pairs("rope_nope", head_dim_);
  }

  const EncodingInfo& info() const override { return rope_nope_info(); }

  UnderShift under_shift() const override {
    if (number("temperature") == 0) return info().under_shift;
    return {UnderShift::Kind::moves, "the temperature reads the query's position"};
  }

  at::Tensor frequencies(const StartContext& context) const override {
    return rope_frequencies(number("base"), head_dim_, context.angle_options()) * step_;
  }

  // The state's table is t, (B or 1, H, N).
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, rotation_state(position_values(context),
                                                          frequencies(context), context.dtype)};
    const at::Tensor places = position_ids(context).to(at::kDouble) * step_;
    const at::Tensor steps = at::floor((places + 1) / number("temperature_length"));
    const at::Tensor factors = 1 + number("temperature") * at::log1p(steps.clamp_min(0));
    const at::Tensor by_text = factors.dim() == 2 ? factors : factors.unsqueeze(0);
    state.table = by_text.to(table_dtype(context.dtype)).unsqueeze(1).expand({-1, heads_, -1});
    return state;
  }

  // What is read of the layer is t in one that turns nothing, and nothing in the others.
  void before_layer(std::int64_t layer, PositionState& state) const override {
    state.read.clear();
    if ((layer + 1) % integer("nope_every") == 0) state.read.push_back(state.table);
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    if (state.read.empty()) {
      program.transform(rotate(q, state.z, layout_), rotate(k, state.z, layout_));
    } else if (number("temperature") > 0) {
      program.tokens.factor = state.read[0];
    }
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override { return {rotation_cost(s)}; }

 private:
  RotationLayout layout_;
};

std::unique_ptr<Encoding> make_rope_nope(const Json& options, const ModelConfig& model) {
  return std::make_unique<RopeNope>(options, model);
}

}  // namespace

EncodingEntry rope_nope_entry() { return {&rope_nope_info(), &make_rope_nope}; }

}  // namespace phasescope::model
