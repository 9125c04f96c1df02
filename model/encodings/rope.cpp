#include "model/encodings/rope.h"

#include <ATen/ATen.h>

#include <cmath>

#include "formats/error.h"
#include "model/encodings/rope_scaling.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& rope_info() {
  static const EncodingInfo info = {
      .key = "rope",
      .title = "RoPE (rotary position embedding)",
      .formula = "s_ij = (R_i q_i).(R_j k_j) / sqrt(d), plane m of R_n turned by n base^(-2m/d)",
      .source = "arXiv 2104.09864, Eq. 14-16; scalings: PI 2306.15595, YaRN 2309.00071",
      .departure = "",
      .options = rope_options(),
      .shift_invariant = true,
      .has_state = true,
  };
  return info;
}

class Rope final : public Encoding {
 public:
  Rope(const Json& options, const ModelConfig& model)
      : Encoding(options, model), scaling_(options, model) {
    if (head_dim_ % 2 != 0) {
      throw formats::bad_input("rope needs an even head size but got " +
                               std::to_string(head_dim_));
    }
    layout_ = text("layout") == "half" ? RotationLayout::half : RotationLayout::interleaved;
  }

  const EncodingInfo& info() const override { return rope_info(); }

  at::Tensor frequencies(const StartContext& context) const override {
    return scaling_.frequencies(context.positions.length, context.angle_dtype);
  }

  PositionState start(const StartContext& context) const override {
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
    program.scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
    program.positions = state.positions;
    return program;
  }

 private:
  RopeScaling scaling_;
  RotationLayout layout_ = RotationLayout::half;
};

std::unique_ptr<Encoding> make_rope(const Json& options, const ModelConfig& model) {
  return std::make_unique<Rope>(options, model);
}

}  // namespace

EncodingEntry rope_entry() { return {&rope_info(), &make_rope}; }

}  // namespace phasescope::model
