#include "model/encodings/ape_sequence.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/orthogonal_powers.h"

namespace phasescope::model {
namespace {

const EncodingInfo& ape_sequence_info() {
  static const EncodingInfo info = {
      .key = "ape_sequence",
      .title = "APE on sequences (positions as orthogonal matrices)",
      .formula = "s_ij = q_i.(W^(j-i) k_j) decay^|i-j| / sqrt(d), W = exp(A - A^T) of each head",
      .source = "arXiv 2312.16045, Section 4.1",
      .departure = "",
      .options = {ape_base_option(), start_option("W"), decay_option("token of distance")},
      .under_shift = {UnderShift::Kind::stays,
                      "the matrices of query and key leave one power of their distance"},
      .has_state = false,
  };
  return info;
}

// decay^n of the distances n of a text, (H, length).
at::Tensor powers_of(double decay, std::int64_t heads, std::int64_t length,
                     const at::TensorOptions& options) {
  const at::Tensor steps = at::arange(length, options.dtype(at::kDouble));
  return at::pow(at::Scalar(decay), steps).to(table_options(options)).expand({heads, -1});
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
    const at::Tensor exponents = positions.consecutive()
                                     ? at::arange(positions.length, positions.options(at::kLong))
                                     : exponents_of(positions.ids);
    program.transform(raised(q, state.table, exponents), raised(k, state.table, exponents));
    const double decay = std::pow(number("decay"), step_);
    if (decay < 1 && positions.consecutive()) {
      program.variant = TableProgram{
          .values = powers_of(decay, heads_, positions.length, q.options()), .multiplies = true};
    } else if (decay < 1) {
      program.variant = decaying(decay, &token_distance);
    }
    return program;
  }

  // W^n by the bits of n: one product of every token for each bit, of q and of k.
  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double bits = std::max(1.0, std::ceil(std::log2(s.tokens)));
    return {token_cost("powers of matrices", s, 2 * bits * s.heads * s.head_dim * s.head_dim)};
  }
};

std::unique_ptr<Encoding> make_ape_sequence(const Json& options, const ModelConfig& model) {
  return std::make_unique<ApeSequence>(options, model);
}

}  // namespace

EncodingEntry ape_sequence_entry() { return {&ape_sequence_info(), &make_ape_sequence}; }

}  // namespace phasescope::model
