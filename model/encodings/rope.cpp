#include "model/encodings/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

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
  options.push_back({"sections", Json::array(),
                     "planes that turn by each of several positions of a token (mRoPE: time, "
                     "height, width); empty: all by one"});
  options.push_back({"section_order",
                     "blocks",
                     "planes of one axis side by side, or height and width at every third plane",
                     {"blocks", "interleaved"}});
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
    read_sections();
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
    return scaling_.frequencies(context.positions.length, context.angle_options()) * step_;
  }

  PositionState start(const StartContext& context) const override {
    if (integer("table_rows") > 0) return {context.positions, stored_state(context)};
    if (context.positions.axes.defined()) return {context.positions, state_of_axes(context)};
    const at::Tensor positions = position_values(context, integer("shift"));
    if (flag("stored_angles")) return {context.positions, state_of_heads(positions, context)};
    at::Tensor z = rotation_state(positions, frequencies(context), context.dtype);
    const double magnitude = scaling_.magnitude();
    if (magnitude != 1.0) z = z * magnitude;
    return {context.positions, z};
  }

  // Keys are turned once, where a longer text turns them alike.
  Pieces in_pieces(std::int64_t length) const override {
    const bool alike =
        scaling_.frequencies(1, at::kDouble).equal(scaling_.frequencies(length, at::kDouble));
    if (alike) return {Pieces::Kind::tokens};
    return {Pieces::Kind::refused, "the scaling \"" + text("scaling") +
                                       "\" turns all tokens otherwise when the text grows"};
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

  // Which of a token's positions each plane turns by.
  void read_sections() {
    const Json& sections = options_.at("sections");
    if (sections.empty()) return;
    std::vector<std::int64_t> sizes;
    std::int64_t sum = 0;
    for (const Json& size : sections) {
      if (!size.is_number_integer() || size.get<std::int64_t>() < 0) {
        throw formats::bad_input("must hold whole numbers of planes, has " + size.dump(),
                                 "rope.sections");
      }
      sizes.push_back(size.get<std::int64_t>());
      sum += sizes.back();
    }
    StartContext any;
    any.positions.length = 1;
    any.dtype = any.angle_dtype = at::kFloat;
    const std::int64_t planes = frequencies(any).size(0);
    const bool interleaved = text("section_order") == "interleaved";
    if (sum != planes || flag("stored_angles") || integer("table_rows") > 0 ||
        (interleaved && sizes.size() != 3)) {
      throw formats::bad_input("has " + std::to_string(sum) + " planes in " +
                                   std::to_string(sizes.size()) + " sections, but " +
                                   std::to_string(planes) + " planes turn" +
                                   (interleaved ? ", in three sections where they interleave" : ""),
                               "rope.sections");
    }
    axes_ = static_cast<std::int64_t>(sizes.size());
    for (std::size_t axis = 0; axis < sizes.size() && !interleaved; ++axis) {
      axis_of_plane_.insert(axis_of_plane_.end(), static_cast<std::size_t>(sizes[axis]),
                            static_cast<std::int64_t>(axis));
    }
    for (std::int64_t plane = 0; plane < planes && interleaved; ++plane) {
      const std::int64_t axis = plane % 3;
      const bool own = axis > 0 && plane < 3 * sizes[static_cast<std::size_t>(axis)];
      axis_of_plane_.push_back(own ? axis : 0);
    }
  }

  // (B, 1, N, 2, planes)
  at::Tensor state_of_axes(const StartContext& context) const {
    const at::Tensor& axes = context.positions.axes;
    if (axis_of_plane_.empty() || axes.size(0) != axes_) {
      throw formats::bad_input("a token has " + std::to_string(axes.size(0)) +
                                   " positions, but the planes of this rope turn by " +
                                   std::to_string(std::max<std::int64_t>(1, axes_)),
                               "position_ids");
    }
    const at::Tensor by_plane = (axes + integer("shift"))
                                    .index_select(0, at::tensor(axis_of_plane_, axes.options()))
                                    .permute({1, 2, 0})
                                    .to(context.angle_dtype);  // (B, N, planes)
    const at::Tensor z = turned(by_plane * frequencies(context), context.dtype).unsqueeze(1);
    const double magnitude = scaling_.magnitude();
    return magnitude == 1.0 ? z : z * magnitude;
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
  std::int64_t axes_ = 0;                    // positions a token; 0: one for all planes
  std::vector<std::int64_t> axis_of_plane_;  // empty: one for all planes
  RotationLayout layout_ = layout_of(options_);
};

std::unique_ptr<Encoding> make_rope(const Json& options, const ModelConfig& model) {
  return std::make_unique<Rope>(options, model);
}

}  // namespace

EncodingEntry rope_entry() { return {&rope_info(), &make_rope}; }

}  // namespace phasescope::model
