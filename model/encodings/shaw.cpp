#include "model/encodings/shaw.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

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

// Distances from -reach to reach, beyond which all have the place of these.
std::int64_t reach_of(std::int64_t window, double step, const Positions& positions) {
  const auto reach = static_cast<std::int64_t>(std::ceil(static_cast<double>(window) / step)) + 1;
  return positions.consecutive() ? std::min(reach, std::max<std::int64_t>(1, positions.length))
                                 : reach;
}

// Relative keys of the distances -reach .. reach, query less key: (1, d, 2 reach + 1). table (2w +
// 1, d).
at::Tensor keys_by_distance(const at::Tensor& table, std::int64_t reach, double step) {
  const std::int64_t window = table.size(0) / 2;
  const at::Tensor distance = at::arange(-reach, reach + 1, table.options().dtype(at::kLong));
  const at::Tensor rows = whole_places(-distance, step).clamp(-window, window) + window;
  return table.index_select(0, rows).t().unsqueeze(0);
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
    const at::Tensor table = layer.at("table").to(table_dtype(q.scalar_type())) * scale_;
    const std::int64_t reach = reach_of(integer("window"), step_, state.positions);
    program.variant = RelativeKeysProgram{.r = q,
                                          .keys = keys_by_distance(table, reach, step_),
                                          .first_distance = -reach,
                                          .clips = true};
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    // Tiles beyond an end multiply with it as others do.
    return {pair_cost("products with relative keys", s, s.heads * s.head_dim)};
  }
};

std::unique_ptr<Encoding> make_shaw(const Json& options, const ModelConfig& model) {
  return std::make_unique<Shaw>(options, model);
}

}  // namespace

EncodingEntry shaw_entry() { return {&shaw_info(), &make_shaw}; }

}  // namespace phasescope::model
