#include "model/encodings/repo.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& repo_info() {
  static const EncodingInfo info = {
      .key = "repo",
      .title = "RePo (positions made of the content)",
      .formula =
          "s_ij = (R_z_i q_i).(R_z_j k_j) / sqrt(d), R RoPE's rotation at the real positions z_h = "
          "W_z (swish(W_g x) * W_c x)",
      .source =
          "Li et al. 2025, RePo: Language Models with Context Re-Positioning, arXiv 2512.14391",
      .departure =
          "every layer has positions of its own; the paper leaves RoPE in the first third "
          "of them, as layer groups can",
      .options = {base_option(),
                  layout_option(),
                  {"position_width",
                   0,
                   "of what positions are made from; 0: an eighth of the model's width",
                   {},
                   0,
                   1 << 20}},
      .under_shift = {UnderShift::Kind::stays,
                      "positions are made of the content; position ids do not enter"},
      .has_state = false,
      .reads_hidden = true,
  };
  return info;
}

class Repo final : public Encoding {
 public:
  Repo(const Json& options, const ModelConfig& model)
      : Encoding(options, model), layout_(layout_of(options)) {
    require_pairs("repo", head_dim_);
    require_key_heads("repo", heads_, kv_heads_);
  }

  const EncodingInfo& info() const override { return repo_info(); }

  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "gate_proj.weight", .shape = {made_from(), width_}},
            {.name = "content_proj.weight", .shape = {made_from(), width_}},
            {.name = "position_proj.weight", .shape = {heads_, made_from()}}};
  }

  // z (B, H, N, 2, d/2) of the layer's own positions.
  void read_hidden(const Parameters& layer, const at::Tensor& x,
                   PositionState& state) const override {
    const at::Tensor made = at::silu(at::linear(x, layer.at("gate_proj.weight"))) *
                            at::linear(x, layer.at("content_proj.weight"));
    const at::ScalarType dtype = table_dtype(x.scalar_type());
    const at::Tensor positions =
        at::linear(made, layer.at("position_proj.weight")).to(dtype).transpose(1, 2);
    const at::Tensor angles =
        positions.unsqueeze(-1) * rope_frequencies(number("base"), head_dim_, positions.options());
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
    const auto made = static_cast<double>(made_from());
    return {token_cost("positions", s, made * (2 * s.width + s.heads)), rotation_cost(s)};
  }

 private:
  std::int64_t made_from() const {
    const std::int64_t asked = integer("position_width");
    return asked > 0 ? asked : std::max<std::int64_t>(1, width_ / 8);
  }

  RotationLayout layout_;
};

std::unique_ptr<Encoding> make_repo(const Json& options, const ModelConfig& model) {
  return std::make_unique<Repo>(options, model);
}

}  // namespace

EncodingEntry repo_entry() { return {&repo_info(), &make_repo}; }

}  // namespace phasescope::model
