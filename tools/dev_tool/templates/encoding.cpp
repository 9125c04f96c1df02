#include "model/encodings/NEW_NAME.h"

namespace phasescope::model {
namespace {

const EncodingInfo& NEW_NAME_info() {
  static const EncodingInfo info = {
      .key = "NEW_NAME",
      .title = "NEW_NAME",
      .formula = "s_ij = q_i.k_j / sqrt(d)",
      .source = "write me: the paper and its equation",
      .departure = "",
      .options = {},
      .under_shift = {UnderShift::Kind::stays, "write me"},
      .has_state = false,
  };
  return info;
}

class NewName final : public Encoding {
 public:
  NewName(const Json& options, const ModelConfig& model) : Encoding(options, model) {}

  const EncodingInfo& info() const override { return NEW_NAME_info(); }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    return unrotated(q, k, state);
  }
};

std::unique_ptr<Encoding> make_NEW_NAME(const Json& options, const ModelConfig& model) {
  return std::make_unique<NewName>(options, model);
}

}  // namespace

EncodingEntry NEW_NAME_entry() { return {&NEW_NAME_info(), &make_NEW_NAME}; }

}  // namespace phasescope::model
