#include "model/encodings/ape_sequence.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "formats/error.h"
#include "model/encodings/orthogonal_powers.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& ape_sequence_info() {
  const double none = std::numeric_limits<double>::infinity();
  const double tiny = std::numeric_limits<double>::min();
  static const EncodingInfo info = {
      .key = "ape_sequence",
      .title = "APE on sequences (positions as orthogonal matrices)",
      .formula = "s_ij = q_i.(W^(j-i) k_j) decay^|i-j| / sqrt(d), W = exp(A - A^T) of each head",
      .source = "arXiv 2312.16045, Section 4.1",
      .departure = "",
      .options =
          {{"base", 10000.0, "base of RoPE's angles, which it starts with", {}, tiny, none},
           {"start",
            "rope",
            "W at the start: RoPE's rotation, the public code's reading of it, or near the "
            "identity",
            {"rope", "public_rope", "identity"}},
           {"decay", 0.98, "multiplies the score for each token of distance; 1: off", {}, tiny, 1}},
      .shift_invariant = true,
      .has_state = false,
  };
  return info;
}

at::Tensor token_distance(const TermRegion& region) {
  return (region.query_id - region.key_id).abs();
}

// Exponents count from the text's first position: the score has their differences alone.
at::Tensor exponents_of(const at::Tensor& ids) { return ids - ids.amin(-1, true); }

class ApeSequence final : public Encoding {
 public:
  ApeSequence(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (head_dim_ % 2 != 0 || kv_heads_ != heads_) {
      throw formats::bad_input(
          "ape_sequence needs an even head size and a key head for every head");
    }
  }

  const EncodingInfo& info() const override { return ape_sequence_info(); }

  // One for all layers.
  std::vector<ParameterSpec> shared_parameters() const override {
    ParameterSpec spec{
        .name = "generator", .shape = {heads_, head_dim_, head_dim_}, .decays = false};
    spec.start = start_generator(text("start"), number("base"), head_dim_);
    return {spec};
  }

  // The state's table is W, W^2, W^4, ...
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, {}};
    state.table = orthogonal_powers(context.shared->at("generator") * step_,
                                    context.positions.largest_distance(), context.dtype);
    return state;
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    const Positions& positions = state.positions;
    const at::Tensor exponents = positions.consecutive() ? at::arange(positions.length, at::kLong)
                                                         : exponents_of(positions.ids);
    program.q = raised(q, state.table, exponents);
    program.k = raised(k, state.table, exponents);
    if (number("decay") < 1) {
      program.kind = AttentionProgram::Kind::term;
      program.term = decaying(std::pow(number("decay"), step_), &token_distance);
    }
    return program;
  }
};

std::unique_ptr<Encoding> make_ape_sequence(const Json& options, const ModelConfig& model) {
  return std::make_unique<ApeSequence>(options, model);
}

}  // namespace

EncodingEntry ape_sequence_entry() { return {&ape_sequence_info(), &make_ape_sequence}; }

}  // namespace phasescope::model
