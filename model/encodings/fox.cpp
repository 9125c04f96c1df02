#include "model/encodings/fox.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& fox_info() {
  static const OptionNeed turning = {"rotate", {true}};
  static const EncodingInfo info = {
      .key = "fox",
      .title = "FoX (forgetting attention)",
      .formula =
          "s_ij = q_i.k_j / sqrt(d) + c_i - c_j, c_i = sum_{t <= i} ln f_t, f_t = sigmoid(w_h.x_t "
          "+ "
          "b_h)",
      .source = "Lin et al. 2025, Forgetting Transformer, arXiv 2503.02130",
      .departure = "",
      .options = {{"rotate", false, "q and k are turned by RoPE too, which the paper does without"},
                  only_where(turning, base_option()),
                  only_where(turning, layout_option())},
      .under_shift = {UnderShift::Kind::stays,
                      "what is forgotten is counted from the content; position ids enter as "
                      "distances at most"},
      .has_state = false,
      .reads_hidden = true,
  };
  return info;
}

class Fox final : public Encoding {
 public:
  Fox(const Json& options, const ModelConfig& model)
      : Encoding(options, model), layout_(layout_of(options)) {
    if (!causal_) {
      throw formats::bad_input("fox forgets from a query back, so it needs the causal mask");
    }
    if (flag("rotate")) require_pairs("fox.rotate", head_dim_);
  }

  const EncodingInfo& info() const override { return fox_info(); }

  // With f = 1/2 for every token at first.
  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "fgate_proj.weight", .shape = {heads_, width_}},
            {.name = "fgate_proj.bias",
             .shape = {heads_},
             .init = ParameterSpec::Init::zeros,
             .decays = false}};
  }

  at::Tensor frequencies(const StartContext& context) const override {
    if (!flag("rotate")) return {};
    return rope_frequencies(number("base"), head_dim_, context.angle_options()) * step_;
  }

  // The state's table is RoPE's rotation, as z.
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, {}};
    if (flag("rotate")) {
      state.table = rotation_state(position_values(context), frequencies(context), context.dtype);
    }
    return state;
  }

  // c, (B, H, N) float64: a sum over a long text is large, and what counts are differences.
  void read_hidden(const Parameters& layer, const at::Tensor& x,
                   PositionState& state) const override {
    const at::Tensor gates =
        at::linear(x, layer.at("fgate_proj.weight"), layer.at("fgate_proj.bias"));
    const at::Tensor kept = at::log_sigmoid(gates.to(table_dtype(x.scalar_type())));
    state.read = {running_sums(kept.to(at::kDouble), state).transpose(1, 2)};
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    if (state.table.defined()) {
      program.transform(rotate(q, state.table, layout_), rotate(k, state.table, layout_));
    }
    if (state.read.empty()) return program;
    program.tokens.query = state.read[0];
    program.tokens.key = -state.read[0];
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    std::vector<EncodingCost> costs = {token_cost("forget gates", s, s.width * s.heads),
                                       score_cost("biases of tokens", s, 2)};
    if (flag("rotate")) costs.push_back(rotation_cost(s));
    return costs;
  }

 private:
  RotationLayout layout_;
};

std::unique_ptr<Encoding> make_fox(const Json& options, const ModelConfig& model) {
  return std::make_unique<Fox>(options, model);
}

}  // namespace

EncodingEntry fox_entry() { return {&fox_info(), &make_fox}; }

}  // namespace phasescope::model
