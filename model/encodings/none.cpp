#include "model/encodings/none.h"

namespace phasescope::model {
namespace {

const EncodingInfo& none_info() {
  static const EncodingInfo info = {
      .key = "none",
      .title = "NoPE (no positional encoding)",
      .formula = "s_ij = q_i.k_j / sqrt(d)",
      .source = "order is known through the causal mask alone; arXiv 2305.19466",
      .departure = "",
      .options = {},
      .under_shift = {UnderShift::Kind::stays, "no position enters"},
      .has_state = false,
  };
  return info;
}

class NoEncoding final : public Encoding {
 public:
  NoEncoding(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return none_info(); }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    return unrotated(q, k, state);
  }
};

std::unique_ptr<Encoding> make_none(const Json& options, const ModelConfig& model) {
  return std::make_unique<NoEncoding>(options, model);
}

}  // namespace

EncodingEntry none_entry() { return {&none_info(), &make_none}; }

}  // namespace phasescope::model
