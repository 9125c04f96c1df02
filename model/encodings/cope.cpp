#include "model/encodings/cope.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

const EncodingInfo& cope_info() {
  static const EncodingInfo info = {
      .key = "cope",
      .title = "CoPE (contextual positions)",
      .formula =
          "s_ij = a_ij + q_i.e[p_ij], a the content score, p_ij = sum_{j..i} sigmoid(a_ik), at "
          "most positions - 1, e interpolated between whole positions",
      .source = "arXiv 2405.18719, Eq. 3-7, as GPT-NeoX's copy has it",
      .departure = "",
      .options = {{"positions", 64, "that can be told apart", {}, 2, 1 << 20}},
      .under_shift = {UnderShift::Kind::stays,
                      "tokens are counted by content; position ids do not enter"},
      .has_state = false,
  };
  return info;
}

// q (B, H, N, d), vectors (d, positions).
at::Tensor cope_scores(const at::Tensor& q, const at::Tensor& vectors, const TermRegion& region) {
  const std::int64_t rows = region.content.size(2);
  const at::TensorOptions places = region.content.options().dtype(at::kLong);
  const at::Tensor row = at::arange(region.first_row, region.first_row + rows, places).unsqueeze(1);
  const at::Tensor later = at::arange(region.content.size(3), places).unsqueeze(0) > row;
  const at::Tensor gates = region.content.sigmoid().masked_fill(later, 0.0);
  const at::Tensor position =
      gates.flip({-1}).cumsum(-1).flip({-1}).clamp_max(static_cast<double>(vectors.size(1) - 1));
  const at::Tensor by_position =
      at::matmul(q.slice(2, region.first_row, region.first_row + rows), vectors);
  const auto at_whole = [&](const at::Tensor& whole) {
    return by_position.gather(-1, whole.detach().to(at::kLong));
  };
  const at::Tensor below = position.floor();
  const at::Tensor share = position - below.detach();
  return region.content + at_whole(position.ceil()) * share + at_whole(below) * (1 - share);
}

class Cope final : public Encoding {
 public:
  Cope(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (!causal_) {
      throw formats::bad_input("cope counts from a query back, so it needs the causal mask");
    }
  }

  const EncodingInfo& info() const override { return cope_info(); }

  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "pos_emb",
             .shape = {head_dim_, integer("positions")},
             .init = ParameterSpec::Init::zeros}};
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    TermProgram term;
    term.reads_rows = true;
    term.arrays = 12 * heads_;
    term.no_table = "a distance that is counted from the scores of all keys between";
    term.score = [q, vectors = layer.at("pos_emb")](const TermRegion& region) {
      return cope_scores(q, vectors, region);
    };
    program.variant = std::move(term);
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {token_cost("products with positions", s, s.heads * number("positions") * s.head_dim)};
  }
};

std::unique_ptr<Encoding> make_cope(const Json& options, const ModelConfig& model) {
  return std::make_unique<Cope>(options, model);
}

}  // namespace

EncodingEntry cope_entry() { return {&cope_info(), &make_cope}; }

}  // namespace phasescope::model
