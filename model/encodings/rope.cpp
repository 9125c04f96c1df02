#include "model/encodings/rope.h"

#include <ATen/ATen.h>

#include "model/encodings/rope_scaling.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

std::vector<OptionInfo> options_with_table() {
  std::vector<OptionInfo> options = rope_options();
  options.push_back(
      {"table_rows",
       0,
       "positions of a stored table of sines and cosines, read in place of computing; "
       "0: none",
       {},
       0,
       1e9});
  options.push_back({"rotate_values", false, "the values are turned too"});
  return options;
}

const EncodingInfo& rope_info() {
  static const EncodingInfo info = {
      .key = "rope",
      .title = "RoPE (rotary position embedding)",
      .formula = "s_ij = (R_i q_i).(R_j k_j) / sqrt(d), plane m of R_n turned by n base^(-2m/d)",
      .source = "arXiv 2104.09864, Eq. 14-16; scalings: PI 2306.15595, YaRN 2309.00071",
      .departure = "",
      .options = options_with_table(),
      .shift_invariant = true,
      .has_state = true,
  };
  return info;
}

class Rope final : public Encoding {
 public:
  Rope(const Json& options, const ModelConfig& model)
      : Encoding(options, model), scaling_(options, model) {
    layout_ = text("layout") == "half" ? RotationLayout::half : RotationLayout::interleaved;
  }

  const EncodingInfo& info() const override { return rope_info(); }

  // Values keep the turn of their own position.
  bool shift_invariant() const override { return !flag("rotate_values"); }

  // Sines in the first half of a row, cosines in the second.
  std::vector<ParameterSpec> shared_parameters() const override {
    if (integer("table_rows") == 0) return {};
    return {{.name = "table", .shape = {integer("table_rows"), head_dim_}, .trainable = false}};
  }

  at::Tensor frequencies(const StartContext& context) const override {
    if (flag("stored_angles")) return {};
    return scaling_.frequencies(context.positions.length, context.angle_dtype) * step_;
  }

  PositionState start(const StartContext& context) const override {
    if (integer("table_rows") > 0) return {context.positions, stored_state(context)};
    const at::Tensor positions = position_values(context, integer("shift"));
    at::Tensor z = rotation_state(positions, frequencies(context), context.dtype);
    const double magnitude = scaling_.magnitude();
    if (magnitude != 1.0) z = z * magnitude;
    return {context.positions, z};
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program;
    program.q_plain = q;
    program.k_plain = k;
    program.q = rotate(q, state.z, layout_);
    program.k = rotate(k, state.z, layout_);
    program.scale = scale_;
    program.positions = state.positions;
    return program;
  }

  at::Tensor values(const at::Tensor& v, const PositionState& state) const override {
    return flag("rotate_values") ? rotate(v, state.z, layout_) : v;
  }

 private:
  at::Tensor stored_state(const StartContext& context) const {
    const at::Tensor rows = table_rows(context, integer("shift"), integer("table_rows"));
    const at::Tensor stored = context.shared->at("table").index({rows});  // ([B,] N, d)
    const std::int64_t planes = head_dim_ / 2;
    const at::Tensor z =
        at::stack({stored.narrow(-1, planes, planes), stored.narrow(-1, 0, planes)}, -2);
    return rows.dim() == 2 ? z.unsqueeze(1) : z.unsqueeze(0).unsqueeze(0);
  }

  RopeScaling scaling_;
  RotationLayout layout_ = RotationLayout::half;
};

std::unique_ptr<Encoding> make_rope(const Json& options, const ModelConfig& model) {
  return std::make_unique<Rope>(options, model);
}

}  // namespace

EncodingEntry rope_entry() { return {&rope_info(), &make_rope}; }

}  // namespace phasescope::model
