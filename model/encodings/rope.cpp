#include "model/encodings/rope.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encoding_cost.h"
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
  options.push_back(
      {"stored_angles", false,
       "each head's angles are a tensor of the model, in place of powers of the base"});
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
      .under_shift = {UnderShift::Kind::stays,
                      "a pair is turned by the difference of its positions alone"},
      .has_state = true,
  };
  return info;
}

class Rope final : public Encoding {
 public:
  Rope(const Json& options, const ModelConfig& model)
      : Encoding(options, model), scaling_(options, model) {
    if (integer("table_rows") > 0) refuse_interpolation("rope with a stored table");
    if (integer("table_rows") > 0 && text("scaling") != "none") {
      throw formats::bad_input(
          "the model reads its sines and cosines from a stored table, which no scaling stretches",
          "rope.scaling", "rope.table_rows=0 has them computed");
    }
    if (flag("stored_angles")) check_stored_angles();
  }

  const EncodingInfo& info() const override { return rope_info(); }

  UnderShift under_shift() const override {
    if (!flag("rotate_values")) return info().under_shift;
    return {UnderShift::Kind::moves, "the values keep the turn of their own position"};
  }

  // A table's rows: sines in the first half, cosines in the second. Angles: radians a token of each
  // head and plane.
  std::vector<ParameterSpec> shared_parameters() const override {
    if (flag("stored_angles")) {
      return {{.name = "angles",
               .shape = {heads_, head_dim_ / 2},
               .decays = false,
               .start = rope_frequencies(number("base"), head_dim_, at::kDouble)}};
    }
    if (integer("table_rows") == 0) return {};
    return {{.name = "table", .shape = {integer("table_rows"), head_dim_}, .trainable = false}};
  }

  // None where every head has its own.
  at::Tensor frequencies(const StartContext& context) const override {
    if (flag("stored_angles")) return {};
    return scaling_.frequencies(context.positions.length, context.angle_dtype) * step_;
  }

  PositionState start(const StartContext& context) const override {
    if (integer("table_rows") > 0) return {context.positions, stored_state(context)};
    const at::Tensor positions = position_values(context, integer("shift"));
    if (flag("stored_angles")) return {context.positions, state_of_heads(positions, context)};
    at::Tensor z = rotation_state(positions, frequencies(context), context.dtype);
    const double magnitude = scaling_.magnitude();
    if (magnitude != 1.0) z = z * magnitude;
    return {context.positions, z};
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    program.transform(rotate(q, state.z, layout_), rotate(k, state.z, layout_));
    return program;
  }

  at::Tensor values(const at::Tensor& v, const PositionState& state) const override {
    return flag("rotate_values") ? rotate(v, state.z, layout_) : v;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override { return {rotation_cost(s)}; }

  std::vector<std::string> idle_options() const override {
    std::vector<std::string> list = Encoding::idle_options();
    for (std::string& sentence : idle_scalings(options_)) list.push_back(std::move(sentence));
    return list;
  }

 private:
  void check_stored_angles() const {
    if (text("scaling") != "none" || number("partial_rotary_factor") != 1 ||
        integer("table_rows") > 0) {
      throw formats::bad_input(
          "angles that are stored for each head take no scaling, no part of a head and no table",
          "rope.stored_angles");
    }
    if (kv_heads_ != heads_) {
      throw formats::bad_input("angles of each head need a key head for every head",
                               "rope.stored_angles");
    }
  }

  // (B or 1, H, N, 2, d/2)
  at::Tensor state_of_heads(const at::Tensor& positions, const StartContext& context) const {
    const at::Tensor angles =
        context.shared->at("angles").to(context.angle_dtype) * step_;  // (H, d/2)
    const at::Tensor by_text = positions.dim() == 2 ? positions : positions.unsqueeze(0);
    return turned(by_text.unsqueeze(1).unsqueeze(-1) *   // (B, 1, N, 1)
                      angles.unsqueeze(0).unsqueeze(2),  // (1, H, 1, d/2)
                  context.dtype);
  }

  at::Tensor stored_state(const StartContext& context) const {
    const at::Tensor rows = table_rows(context, integer("shift"), integer("table_rows"));
    const at::Tensor stored = context.shared->at("table").index({rows});  // ([B,] N, d)
    const std::int64_t planes = head_dim_ / 2;
    const at::Tensor z =
        at::stack({stored.narrow(-1, planes, planes), stored.narrow(-1, 0, planes)}, -2);
    return rows.dim() == 2 ? z.unsqueeze(1) : z.unsqueeze(0).unsqueeze(0);
  }

  RopeScaling scaling_;
  RotationLayout layout_ = layout_of(options_);
};

std::unique_ptr<Encoding> make_rope(const Json& options, const ModelConfig& model) {
  return std::make_unique<Rope>(options, model);
}

}  // namespace

EncodingEntry rope_entry() { return {&rope_info(), &make_rope}; }

}  // namespace phasescope::model
