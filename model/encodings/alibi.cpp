#include "model/encodings/alibi.h"

#include <ATen/ATen.h>

#include <cmath>

namespace phasescope::model {
namespace {

const EncodingInfo& alibi_info() {
  static const EncodingInfo info = {
      .key = "alibi",
      .title = "ALiBi (linear biases)",
      .formula = "s_ij = q_i.k_j / sqrt(d) - slope_h (i - j)",
      .source = "arXiv 2108.12409, Section 3; slopes 2^(-8(h+1)/H)",
      .departure = "",
      .options = {},
      .shift_invariant = true,
      .has_state = false,
  };
  return info;
}

// 2^(-8(h+1)/H) for H a power of two; otherwise those of the next lower power of two, followed by
// every second slope of twice that power.
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

class Alibi final : public Encoding {
 public:
  Alibi(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return alibi_info(); }

  // Some checkpoints store theirs.
  std::vector<ParameterSpec> parameters() const override {
    return {{.name = "slopes", .shape = {heads_}, .trainable = false, .optional = true}};
  }

  at::Tensor bias_table(const Parameters& layer, std::int64_t length,
                        at::ScalarType dtype) const override {
    const auto stored = layer.find("slopes");
    const at::Tensor slopes = stored != layer.end()
                                  ? stored->second.to(dtype)
                                  : at::tensor(alibi_slopes(heads_), at::kDouble).to(dtype);
    const at::Tensor distance = at::arange(length, at::TensorOptions(dtype));
    return -slopes.unsqueeze(1) * distance.unsqueeze(0);
  }

  AttentionProgram program(const Parameters& layer, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program;
    program.kind = AttentionProgram::Kind::table;
    program.q = program.q_plain = q;
    program.k = program.k_plain = k;
    program.scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
    program.table.values =
        bias_table(layer, state.positions.largest_distance() + 1, q.scalar_type());
    program.positions = state.positions;
    return program;
  }
};

std::unique_ptr<Encoding> make_alibi(const Json& options, const ModelConfig& model) {
  return std::make_unique<Alibi>(options, model);
}

}  // namespace

EncodingEntry alibi_entry() { return {&alibi_info(), &make_alibi}; }

}  // namespace phasescope::model
