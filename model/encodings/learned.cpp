#include "model/encodings/learned.h"

#include <ATen/ATen.h>

#include <cmath>

#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& learned_info() {
  static const EncodingInfo info = {
      .key = "learned",
      .title = "Learned positions",
      .formula = "x_i + P_i, P a trained table; s_ij = q_i.k_j / sqrt(d)",
      .source = "arXiv 1705.03122; GPT-2, BERT, OPT",
      .departure = "",
      .options = {{"max_positions",
                   0,
                   "rows of the table for positions; 0: the model's context",
                   {},
                   0,
                   1e9},
                  {"offset", 0, "row of position 0", {}, 0, 1e9}},
      .under_shift = {UnderShift::Kind::refused,
                      "each place has a row of its own, and the table ends"},
      .has_state = false,
  };
  return info;
}

class Learned final : public Encoding {
 public:
  Learned(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    rows_ = integer("max_positions") > 0 ? integer("max_positions") : context_;
    rows_ += integer("offset");
  }

  const EncodingInfo& info() const override { return learned_info(); }

  std::vector<ParameterSpec> shared_parameters() const override {
    return {{.name = "table", .shape = {rows_, width_}}};
  }

  at::Tensor embed(const at::Tensor& x, const StartContext& context) const override {
    const at::Tensor& table = context.shared->at("table");
    if (step_ == 1.0) {
      return x + at::embedding(table, table_rows(context, integer("offset"), rows_));
    }
    // Between two rows, the straight line.
    StartContext below = context;
    const at::Tensor places = position_ids(context).to(at::kDouble) * step_;
    below.positions.ids = places.floor().to(at::kLong);
    below.positions.kept = at::Tensor();  // the host has none of these
    const PositionExtent ends = context.positions.measured();
    const auto place_of = [this](std::int64_t id) {
      return static_cast<std::int64_t>(std::floor(static_cast<double>(id) * step_));
    };
    below.positions.extent = {place_of(ends.least), place_of(ends.greatest), ends.reach};
    const at::Tensor row = table_rows(below, integer("offset"), rows_);
    const at::Tensor share = (places - places.floor()).to(x.scalar_type()).unsqueeze(-1);
    const at::Tensor next = (row + 1).clamp_max(rows_ - 1);
    return x + at::embedding(table, row) * (1 - share) + at::embedding(table, next) * share;
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    return unrotated(q, k, state);
  }

 private:
  std::int64_t rows_;
};

std::unique_ptr<Encoding> make_learned(const Json& options, const ModelConfig& model) {
  return std::make_unique<Learned>(options, model);
}

}  // namespace

EncodingEntry learned_entry() { return {&learned_info(), &make_learned}; }

}  // namespace phasescope::model
