#include "model/encodings/t5.h"

#include <ATen/ATen.h>

#include <cmath>

#include "formats/error.h"
#include "model/encoding_cost.h"

namespace phasescope::model {

at::Tensor one_sided_bucket(const at::Tensor& distance, std::int64_t buckets,
                            std::int64_t max_distance) {
  const std::int64_t exact = buckets / 2;
  const double range = std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const at::Tensor spaced = at::log(distance.to(at::kFloat) / static_cast<double>(exact)) / range *
                            static_cast<double>(buckets - exact);
  const at::Tensor far = (spaced.clamp_min(0).to(at::kLong) + exact).clamp_max(buckets - 1);
  return at::where(distance < exact, distance, far);
}

namespace {

const EncodingInfo& t5_info() {
  static const EncodingInfo info = {
      .key = "t5",
      .title = "T5 (a learned bias by distance bucket)",
      .formula = "s_ij = q_i.k_j / sqrt(d) + table[bucket(i - j)][h]",
      .source = "arXiv 1910.10683, Section 2.1; buckets as in its code",
      .departure = "",
      .options =
          {{"buckets", 32, "distances that are told apart", {}, 2, 1 << 20},
           {"max_distance", 128, "the last bucket holds this distance and all beyond", {}, 2, 1e9},
           {"tables", "shared", "one for all layers, or one a layer", {"shared", "layer"}}},
      .under_shift = {UnderShift::Kind::stays, "positions enter as distances alone"},
      .has_state = false,
  };
  return info;
}

class T5 final : public Encoding {
 public:
  T5(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    const std::int64_t side = integer("buckets") / (causal_ ? 1 : 2);
    if (side < 2 || integer("max_distance") <= side / 2) {
      throw formats::bad_input("t5 needs at least 2 buckets a side and a max_distance above the " +
                               std::to_string(side / 2) + " distances with one of their own");
    }
  }

  const EncodingInfo& info() const override { return t5_info(); }

  std::vector<ParameterSpec> parameters() const override {
    return shared() ? std::vector<ParameterSpec>{} : std::vector<ParameterSpec>{table()};
  }
  std::vector<ParameterSpec> shared_parameters() const override {
    return shared() ? std::vector<ParameterSpec>{table()} : std::vector<ParameterSpec>{};
  }

  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, {}};
    if (shared()) state.table = values(context.shared->at("table"), context.positions);
    return state;
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    program.variant =
        TableProgram{shared() ? state.table : values(layer.at("table"), state.positions),
                     first_distance(state.positions)};
    return program;
  }

  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        const at::TensorOptions& options) const override {
    const auto table = layer.find("table");
    if (table == layer.end()) return {};
    return table->second.to(table_options(options))
        .index_select(0, bucket(whole_places(at::arange(length, options.dtype(at::kLong)), step_)))
        .t();
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {score_cost("bias on the scores", s, 1)};
  }

 private:
  bool shared() const { return text("tables") == "shared"; }

  ParameterSpec table() const {
    return {.name = "table", .shape = {integer("buckets"), heads_}, .decays = false};
  }

  // Distances i - j of either sign: later keys have the second half of the buckets where they are
  // seen at all.
  at::Tensor bucket(const at::Tensor& distance) const {
    if (causal_) {
      return one_sided_bucket(distance.clamp_min(0), integer("buckets"), integer("max_distance"));
    }
    const std::int64_t side = integer("buckets") / 2;
    return one_sided_bucket(distance.abs(), side, integer("max_distance")) +
           (distance < 0).to(at::kLong) * side;
  }

  std::int64_t first_distance(const Positions& positions) const {
    return causal_ && positions.consecutive() ? 0 : -positions.largest_distance();
  }

  // (H, L) from the first distance to the largest.
  at::Tensor values(const at::Tensor& table, const Positions& positions) const {
    const at::Tensor distance =
        at::arange(first_distance(positions), positions.largest_distance() + 1,
                   table.options().dtype(at::kLong));
    return table.to(table_dtype(table.scalar_type()))
        .index_select(0, bucket(whole_places(distance, step_)))
        .t();
  }
};

std::unique_ptr<Encoding> make_t5(const Json& options, const ModelConfig& model) {
  return std::make_unique<T5>(options, model);
}

}  // namespace

EncodingEntry t5_entry() { return {&t5_info(), &make_t5}; }

}  // namespace phasescope::model
