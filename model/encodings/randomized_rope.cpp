#include "model/encodings/randomized_rope.h"

#include <ATen/ATen.h>

#include <string>

#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& randomized_rope_info() {
  static const EncodingInfo info = {
      .key = "randomized_rope",
      .title = "RandPE (rotary positions, drawn)",
      .formula = "RoPE at positions p_0 < p_1 < ..., a sorted random subset of 0..range-1",
      .source = "arXiv 2305.16843, Section 3.1",
      .departure = "",
      .options =
          {base_option(),
           layout_option(),
           {"draw",
            "none",
            "outside training: 0, 1, 2, ..., or one draw for the model, or one for each layer; "
            "each "
            "step of training draws afresh, for each layer where this says layer",
            {"none", "model", "layer"}},
           {"range",
            0,
            "positions drawn are below it; longer texts get 0, 1, 2, ...; 0: twice the context",
            {},
            0,
            1e8},
           only_where({"draw", {"model", "layer"}},
                      {"seed",
                       1,
                       "of the draw outside training, which is the same each time",
                       {},
                       0,
                       1e9})},
      .under_shift = {UnderShift::Kind::stays,
                      "the drawn places are turned alike, which leaves their differences"},
      .has_state = true,
  };
  return info;
}

class RandomizedRope final : public Encoding {
 public:
  RandomizedRope(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    require_pairs("randomized_rope", head_dim_);
    range_ = integer("range") > 0 ? integer("range") : 2 * context_;
  }

  const EncodingInfo& info() const override { return randomized_rope_info(); }

  std::string departure() const override {
    if (text("draw") == "none") return {};
    return "positions are drawn outside training too, and stay as drawn (seed " +
           std::to_string(integer("seed")) + "); the paper evaluates with 0, 1, 2, ...";
  }

  UnderShift under_shift() const override {
    UnderShift declared = info().under_shift;
    if (text("draw") != "none") {
      declared.why += "; tokens before the text make it a longer one, which has a draw of its own";
    }
    return declared;
  }

  at::Tensor frequencies(const StartContext& context) const override {
    return rope_frequencies(number("base"), head_dim_, context.angle_options()) * step_;
  }

  // The state's table is every layer's z, one below the other, where they differ.
  PositionState start(const StartContext& context) const override {
    const at::Tensor frequency = frequencies(context);
    const auto rotation = [&](const at::Tensor& ids) {
      return rotation_state(ids.to(context.angle_dtype), frequency, context.dtype);
    };
    PositionState state{context.positions, rotation(ids_of_layer(context, 0))};
    if (context.layer_ids.defined() || text("draw") == "layer") {
      std::vector<at::Tensor> layers;
      for (std::int64_t layer = 0; layer < layers_; ++layer) {
        layers.push_back(rotation(ids_of_layer(context, layer)));
      }
      state.table = at::stack(layers);
    }
    return state;
  }

  void before_layer(std::int64_t layer, PositionState& state) const override {
    if (state.table.defined()) state.z = state.table[layer];
  }

  Pieces in_pieces(std::int64_t) const override {
    if (text("draw") == "none") return {Pieces::Kind::tokens};
    return {Pieces::Kind::refused, "positions are drawn anew for every length of the text"};
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    program.transform(rotate(q, state.z, layout_), rotate(k, state.z, layout_));
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override { return {rotation_cost(s)}; }

 private:
  // Those given a layer are taken as they are; drawn ones begin where the text's own do.
  at::Tensor ids_of_layer(const StartContext& context, std::int64_t layer) const {
    const Positions& positions = context.positions;
    if (context.layer_ids.defined()) return context.layer_ids[layer] + positions.shift;
    const at::Tensor own = position_ids(context);
    const bool draws = context.draw.has_value() || text("draw") != "none";
    if (!draws || positions.length > range_) return own;
    const auto seed = context.draw.value_or(static_cast<std::uint64_t>(integer("seed"))) +
                      static_cast<std::uint64_t>(text("draw") == "layer" ? layer : 0);
    return drawn_positions(positions.length, range_, seed).to(own.device()) + own.amin(-1, true);
  }

  RotationLayout layout_ = layout_of(options_);
  std::int64_t range_ = 0;
};

std::unique_ptr<Encoding> make_randomized_rope(const Json& options, const ModelConfig& model) {
  return std::make_unique<RandomizedRope>(options, model);
}

}  // namespace

EncodingEntry randomized_rope_entry() { return {&randomized_rope_info(), &make_randomized_rope}; }

}  // namespace phasescope::model
