#include "model/encodings/ape_grid.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/orthogonal_powers.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& ape_grid_info() {
  static const EncodingInfo info = {
      .key = "ape_grid",
      .title = "APE on grids (a matrix for each axis)",
      .formula =
          "s_ij = q_i.((W1^dh + W2^dw) k_j) decay^distance / sqrt(d), W1 and W2 on a half of the "
          "channels each; token i stands in row i div columns, column i mod columns",
      .source = "arXiv 2312.16045, Section 4.3",
      .departure = "",
      .options = {ape_base_option(),
                  start_option("W1 and W2"),
                  {"columns", 16, "of the grid: position ids run along its rows", {}, 1, 1e9},
                  decay_option("step of distance"),
                  {"distance",
                   "euclidean",
                   "rounded down (public image model), or steps along the axes",
                   {"euclidean", "manhattan"}}},
      // Position ids that are shifted fall into other rows; by whole rows nothing changes.
      .under_shift = {UnderShift::Kind::moves,
                      "ids fall into other rows; a shift by whole rows changes nothing"},
      .has_state = false,
      .places = Places::grid,
  };
  return info;
}

// (B or 1, rows, columns) in steps of either axis.
struct Steps {
  at::Tensor rows, columns;
};
Steps steps_of(const TermRegion& region, std::int64_t columns) {
  return {(region.query_id.floor_divide(columns) - region.key_id.floor_divide(columns)).abs(),
          (region.query_id.remainder(columns) - region.key_id.remainder(columns)).abs()};
}

at::Tensor manhattan(const TermRegion& region, std::int64_t columns) {
  const Steps steps = steps_of(region, columns);
  return steps.rows + steps.columns;
}

at::Tensor euclidean(const TermRegion& region, std::int64_t columns) {
  const Steps steps = steps_of(region, columns);
  return (steps.rows.square() + steps.columns.square()).to(at::kDouble).sqrt().floor();
}

class ApeGrid final : public Encoding {
 public:
  ApeGrid(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    refuse_interpolation("ape_grid");
    if (head_dim_ % 4 != 0 || kv_heads_ != heads_) {
      throw formats::bad_input(
          "ape_grid needs a head size that divides by 4 and a key head for every head");
    }
  }

  const EncodingInfo& info() const override { return ape_grid_info(); }

  // Rows first, then columns; one for all layers.
  std::vector<ParameterSpec> shared_parameters() const override {
    const std::int64_t half = head_dim_ / 2;
    ParameterSpec spec{.name = "generator", .shape = {2, heads_, half, half}, .decays = false};
    spec.start = start_generator(text("start"), number("base"), half);
    return {spec};
  }

  // The state's table is W, W^2, W^4, ... of both axes.
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, {}};
    const at::Tensor ids = position_ids(context);
    const std::int64_t columns = integer("columns");
    const std::int64_t largest =
        ids.numel() == 0 ? 0
                         : std::max(context.positions.measured().greatest / columns, columns - 1);
    state.table = orthogonal_powers(context.shared->at("generator"), largest, context.dtype);
    return state;
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const at::Tensor ids = position_ids(state.positions);
    program.transform(placed(q, state.table, ids), placed(k, state.table, ids));
    if (number("decay") < 1) {
      const auto distance = text("distance") == "manhattan" ? &manhattan : &euclidean;
      program.variant = decaying(
          number("decay"), [distance, columns = integer("columns")](const TermRegion& region) {
            return distance(region, columns);
          });
    }
    return program;
  }

  // As for sequences, but of two axes, each with half of a head.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double columns = number("columns");
    const double largest = std::max({2.0, columns, s.tokens / columns});
    const double bits = std::ceil(std::log2(largest));
    return {token_cost("powers of matrices", s, 2 * bits * s.heads * s.head_dim * s.head_dim / 2)};
  }

 private:
  at::Tensor placed(const at::Tensor& x, const at::Tensor& powers, const at::Tensor& ids) const {
    const std::int64_t half = head_dim_ / 2;
    const std::int64_t columns = integer("columns");
    return at::cat({raised(x.narrow(-1, 0, half), powers.select(1, 0), ids.floor_divide(columns)),
                    raised(x.narrow(-1, half, half), powers.select(1, 1), ids.remainder(columns))},
                   -1);
  }
};

std::unique_ptr<Encoding> make_ape_grid(const Json& options, const ModelConfig& model) {
  return std::make_unique<ApeGrid>(options, model);
}

}  // namespace

EncodingEntry ape_grid_entry() { return {&ape_grid_info(), &make_ape_grid}; }

}  // namespace phasescope::model
