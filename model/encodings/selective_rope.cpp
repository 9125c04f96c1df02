#include "model/encodings/selective_rope.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& selective_rope_info() {
  static const EncodingInfo info = {
      .key = "selective_rope",
      .title = "Selective RoPE (angles made of the content)",
      .formula =
          "s_ij = (R_i q_i).(R_j k_j) / sqrt(d), plane m of R_n turned by base^(-2m/d) sum_{t <= "
          "n} "
          "((W x_t / |x_t|)_hm + e^b_hm)",
      .source =
          "Movahedi et al. 2025, Selective Rotary Position Embedding, arXiv 2511.17388, and its "
          "public code",
      .departure =
          "W has full rank and no short convolution behind it, and there is no gate; e^b "
          "(use_bias of the public code) is always there, so that b = W = 0 is RoPE",
      .options = {base_option(), layout_option()},
      .under_shift = {UnderShift::Kind::stays,
                      "angles are summed over tokens; position ids do not enter"},
      .has_state = false,
      .reads_hidden = true,
  };
  return info;
}

class SelectiveRope final : public Encoding {
 public:
  SelectiveRope(const Json& options, const ModelConfig& model)
      : Encoding(options, model), layout_(layout_of(options)) {
    require_pairs("selective_rope", head_dim_);
    require_key_heads("selective_rope", heads_, kv_heads_);
    if (!causal_) throw formats::bad_input("selective_rope needs the causal mask");
  }

  const EncodingInfo& info() const override { return selective_rope_info(); }

  std::vector<ParameterSpec> parameters() const override {
    const std::int64_t planes = head_dim_ / 2;
    return {{.name = "angle_proj.weight", .shape = {heads_ * planes, width_}},
            {.name = "angle_proj.bias",
             .shape = {heads_ * planes},
             .init = ParameterSpec::Init::zeros,
             .decays = false}};
  }

  // z (B, H, N, 2, d/2); sums of angles in float64, for they grow with the text.
  void read_hidden(const Parameters& layer, const at::Tensor& x,
                   PositionState& state) const override {
    const at::Tensor length = (x.to(table_dtype(x.scalar_type())).square().sum(-1, true) + 1e-6)
                                  .sqrt()
                                  .to(x.scalar_type());
    const at::Tensor steps =
        (at::linear(x / length, layer.at("angle_proj.weight")) + layer.at("angle_proj.bias").exp())
            .to(at::kDouble)
            .unflatten(-1, {heads_, head_dim_ / 2});
    const at::Tensor angles = running_sums(steps, state).transpose(1, 2) *
                              rope_frequencies(number("base"), head_dim_, steps.options());
    state.read = {turned(angles, x.scalar_type())};
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    if (state.read.empty()) return program;
    program.transform(rotate(q, state.read[0], layout_), rotate(k, state.read[0], layout_));
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {token_cost("angles", s, s.width * s.heads * s.head_dim / 2), rotation_cost(s)};
  }

 private:
  RotationLayout layout_;
};

std::unique_ptr<Encoding> make_selective_rope(const Json& options, const ModelConfig& model) {
  return std::make_unique<SelectiveRope>(options, model);
}

}  // namespace

EncodingEntry selective_rope_entry() { return {&selective_rope_info(), &make_selective_rope}; }

}  // namespace phasescope::model
