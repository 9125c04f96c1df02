#include "model/encodings/shaw.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

const EncodingInfo& shaw_info() {
  static const EncodingInfo info = {
      .key = "shaw",
      .title = "Relative keys (Shaw)",
      .formula = "s_ij = q_i.(k_j + a[clip(j - i, -w, w)]) / sqrt(d)",
      .source = "arXiv 1803.02155, Eq. 2 and 4, without the relative values",
      .departure = "",
      .options = {{"window", 16, "w, the largest distance told apart", {}, 1, 1 << 20}},
      .under_shift = {UnderShift::Kind::stays, "positions enter as distances alone"},
      .has_state = false,
  };
  return info;
}

// q (B, H, N, d), table (2w + 1, d).
at::Tensor shaw_scores(const at::Tensor& q, const at::Tensor& table, double scale, double step,
                       const TermRegion& region) {
  const at::Tensor& content = region.content;
  const std::int64_t window = table.size(0) / 2;
  const at::Tensor rows = q.slice(1, region.first_head, region.first_head + content.size(1))
                              .slice(2, region.first_row, region.first_row + content.size(2));
  const at::Tensor by_distance = at::matmul(rows, table.t()) * scale;  // (B, heads, rows, 2w + 1)
  const at::Tensor distance = whole_places(region.key_id - region.query_id, step);
  const at::Tensor index = distance.clamp(-window, window) + window;
  return content + by_distance.gather(-1, index.unsqueeze(1).expand(content.sizes()));
}

class Shaw final : public Encoding {
 public:
  Shaw(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (model.attention.scale_by_layer) {
      throw formats::bad_input("shaw has one scale of scores for all layers",
                               "attention.scale_by_layer");
    }
  }

  const EncodingInfo& info() const override { return shaw_info(); }

  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "table", .shape = {2 * integer("window") + 1, head_dim_}}};
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    TermProgram term;
    term.arrays = 3 * heads_;
    term.score = [q, table = layer.at("table"), scale = scale_,
                  step = step_](const TermRegion& region) {
      return shaw_scores(q, table, scale, step, region);
    };
    program.variant = std::move(term);
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double keys = 2 * number("window") + 1;
    return {token_cost("products with relative keys", s, s.heads * keys * s.head_dim)};
  }
};

std::unique_ptr<Encoding> make_shaw(const Json& options, const ModelConfig& model) {
  return std::make_unique<Shaw>(options, model);
}

}  // namespace

EncodingEntry shaw_entry() { return {&shaw_info(), &make_shaw}; }

}  // namespace phasescope::model
