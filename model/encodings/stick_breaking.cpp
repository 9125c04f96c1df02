#include "model/encodings/stick_breaking.h"

#include <ATen/ATen.h>

#include "formats/error.h"
#include "model/encoding_cost.h"

namespace phasescope::model {
namespace {

const EncodingInfo& stick_breaking_info() {
  static const EncodingInfo info = {
      .key = "stick_breaking",
      .title = "Stick-breaking attention",
      .formula =
          "weight of key j: b_ij prod_{j < k <= i} (1 - b_ik), b = sigmoid(q_i.k_j / sqrt(d)); as "
          "a "
          "softmax s_ij = a_ij + sum_{k < j} ln(1 + e^a_ik), a the content score, beside a sink of "
          "score 0 that has what is left of the stick",
      .source = "Tan et al. 2024, Scaling Stick-Breaking Attention, arXiv 2410.17980",
      .departure =
          "a query's own key takes the first piece, as with attend_current of the public "
          "code, which leaves it out by default",
      .options = {},
      .under_shift = {UnderShift::Kind::stays,
                      "pieces are taken in the tokens' order; position ids do not enter"},
      .has_state = false,
  };
  return info;
}

// What each key's score has more is a sum over the keys before it in its own row, so a block of
// keys cannot be scored before the ones before it.
at::Tensor stick_scores(const TermRegion& region) {
  const at::Tensor& content = region.content;
  const at::TensorOptions places = content.options().dtype(at::kLong);
  const at::Tensor row =
      at::arange(region.first_row, region.first_row + content.size(2), places).unsqueeze(1);
  const at::Tensor later = at::arange(content.size(3), places).unsqueeze(0) > row;
  const at::Tensor broken =
      at::softplus(content).masked_fill(later, 0.0).to(at::kDouble).cumsum(-1);
  // What the keys before took: the sum up to here, less one's own.
  const at::Tensor before = at::constant_pad_nd(broken.slice(-1, 0, -1), {1, 0}, 0);
  return content + before.to(content.scalar_type());
}

class StickBreaking final : public Encoding {
 public:
  StickBreaking(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    if (!causal_) {
      throw formats::bad_input(
          "stick_breaking takes pieces from a query back, so it needs the causal mask");
    }
    if (!model.attention.sink_layers.empty()) {
      throw formats::bad_input("stick_breaking leaves what is over to a sink of its own",
                               "attention.sink_layers");
    }
  }

  const EncodingInfo& info() const override { return stick_breaking_info(); }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    TermProgram term;
    term.reads_rows = true;
    term.arrays = 6 * heads_;
    term.no_table = "a piece of what the keys nearer to the query have left";
    term.score = &stick_scores;
    program.variant = std::move(term);
    program.sinks = at::zeros({heads_}, q.options());
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    return {score_cost("pieces of the stick", s, 3)};
  }
};

std::unique_ptr<Encoding> make_stick_breaking(const Json& options, const ModelConfig& model) {
  return std::make_unique<StickBreaking>(options, model);
}

}  // namespace

EncodingEntry stick_breaking_entry() { return {&stick_breaking_info(), &make_stick_breaking}; }

}  // namespace phasescope::model
