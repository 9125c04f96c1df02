#include "model/encodings/alibi.h"

#include <ATen/ATen.h>

#include <cmath>

#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  const auto slope = [](std::int64_t h, std::int64_t of) {
    return std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(of));
  };
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < power; ++h) slopes.push_back(slope(h, power));
  for (std::int64_t h = 0; power + h < heads; ++h) slopes.push_back(slope(2 * h, 2 * power));
  return slopes;
}

namespace {

const EncodingInfo& alibi_info() {
  static const EncodingInfo info = {
      .key = "alibi",
      .title = "ALiBi (linear biases)",
      .formula = "s_ij = q_i.k_j / sqrt(d) - slope_h (i - j)",
      .source = "arXiv 2108.12409, Section 3; slopes 2^(-8(h+1)/H)",
      .departure = "",
      .options =
          {{"slopes",
            "paper",
            "of head counts that are no power of two: those of the next lower one first, or every "
            "second of the next higher one first",
            {"paper", "next_power"}},
           {"scaled", false, "the bias is multiplied by the scale of q.k too"},
           {"rounding",
            "none",
            "bfloat16: slopes, and slopes times positions, are rounded to it",
            {"none", "bfloat16"}}},
      .under_shift = {UnderShift::Kind::stays, "positions enter as distances alone"},
      .has_state = false,
  };
  return info;
}

// 2^(-8 i/n) for n the next power of two: i = 2, 4, .. and then 1, 3, .. where that is not H.
std::vector<double> next_power_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (power < heads) power *= 2;
  std::vector<double> slopes;
  const auto add = [&](std::int64_t first, std::int64_t step) {
    for (std::int64_t i = first; i <= power; i += step) {
      slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
    }
  };
  if (power == heads) {
    add(1, 1);
  } else {
    add(2, 2);
    add(1, 2);
  }
  slopes.resize(static_cast<std::size_t>(heads));
  return slopes;
}

class Alibi final : public Encoding {
 public:
  Alibi(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (text("rounding") != "none") refuse_interpolation("alibi with rounding");
  }

  const EncodingInfo& info() const override { return alibi_info(); }

  UnderShift under_shift() const override {
    if (text("rounding") == "none") return info().under_shift;
    return {UnderShift::Kind::moves, "each key's part of the bias is rounded by itself"};
  }

  // Some checkpoints store theirs.
  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "slopes", .shape = {heads_}, .trainable = false, .optional = true}};
  }

  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        const at::TensorOptions& options) const override {
    const at::Tensor distance = distances(length, options.device());
    const at::Tensor table =
        -slopes(layer, distance.options()).unsqueeze(1) * distance.unsqueeze(0);
    return (flag("scaled") ? table * scale_ : table).to(table_options(options));
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    if (text("rounding") == "bfloat16") {
      const at::Tensor bias = rounded_bias(layer, state.positions, q.options()).to(at::kDouble);
      program.tokens.query = -bias, program.tokens.key = bias;
    } else {
      program.variant =
          TableProgram{bias_table(layer, state.positions.largest_distance() + 1, q.options())};
    }
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {score_cost("bias on the scores", s, 1)};
  }

 private:
  // (H)
  at::Tensor slopes(const Parameters& layer, const at::TensorOptions& options) const {
    const auto stored = layer.find("slopes");
    if (stored != layer.end()) return stored->second.to(options);
    const std::vector<double> computed =
        text("slopes") == "paper" ? alibi_slopes(heads_) : next_power_slopes(heads_);
    return tensor_of(computed, options.dtype(at::kDouble)).to(options);
  }

  // Slope times position of each key, (B or 1, H, N). Rounded, it no longer depends on the distance
  // alone.
  at::Tensor rounded_bias(const Parameters& layer, const Positions& positions,
                          const at::TensorOptions& options) const {
    const at::ScalarType dtype = options.dtype().toScalarType();
    const at::Tensor ids = position_ids(positions);
    const at::Tensor by_text = ids.dim() == 2 ? ids : ids.unsqueeze(0);
    const at::Tensor rounded =
        slopes(layer, options).to(at::kBFloat16).view({1, -1, 1}) * by_text.unsqueeze(1);
    return flag("scaled") ? rounded.to(dtype) * scale_ : rounded.to(dtype);
  }
};

std::unique_ptr<Encoding> make_alibi(const Json& options, const ModelConfig& model) {
  return std::make_unique<Alibi>(options, model);
}

}  // namespace

EncodingEntry alibi_entry() { return {&alibi_info(), &make_alibi}; }

}  // namespace phasescope::model
