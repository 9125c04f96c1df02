#include "model/encodings/xpos.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& xpos_info() {
  static const EncodingInfo info = {
      .key = "xpos",
      .title = "xPos (rotary positions that decay)",
      .formula =
          "s_ij = sum_m zeta_m^((i-j)/scale_base) Re(conj((R_i q_i)_m) (R_j k_j)_m) / sqrt(d), "
          "zeta_m = (2m + 0.4 d) / (1.4 d)",
      .source = "arXiv 2212.10554, Section 3.2",
      .departure = "",
      .options =
          {base_option(),
           layout_option(),
           {"scale_base",
            512.0,
            "tokens over which plane m decays by zeta_m",
            {},
            kAboveZero,
            kNoLimit},
           {"max_positions",
            0,
            "the exponents' centre is half of it, or of a longer text; 0: the model's context",
            {},
            0,
            kNoLimit}},
      .under_shift = {UnderShift::Kind::stays,
                      "turns and decays of a pair are of the difference of its positions alone"},
      .has_state = true,
  };
  return info;
}

// Exponents are counted from the middle of the text's own positions: it cancels in the score, and a
// shift of all positions cannot overflow. (N), or (B, N).
at::Tensor centred(const at::Tensor& ids, std::int64_t center, at::ScalarType dtype) {
  return (ids - ids.amin(-1, true) - center).to(dtype);
}

// q is multiplied by what k is divided by, both up to exp(largest), of so many tokens. Throws Error
// "bad_input" where `dtype` cannot hold that: infinite times 0 would be no number.
void require_range(double largest, std::int64_t tokens, at::ScalarType dtype) {
  const double limit = dtype == at::kHalf ? 65504.0
                       : dtype == at::kDouble
                           ? std::numeric_limits<double>::max()
                           : static_cast<double>(std::numeric_limits<float>::max());
  if (largest < std::log(limit)) return;
  throw formats::bad_input(std::string("xpos's decay over ") + std::to_string(tokens) +
                               " tokens is more than " + at::toString(dtype) +
                               " can hold; read fewer tokens, or in a wider dtype",
                           "positions");
}

class Xpos final : public Encoding {
 public:
  Xpos(const Json& options, const ModelConfig& model) : Encoding(options, model) {
    require_pairs("xpos", head_dim_);
  }

  const EncodingInfo& info() const override { return xpos_info(); }

  at::Tensor frequencies(const StartContext& context) const override {
    return rope_frequencies(number("base"), head_dim_, context.angle_options()) * step_;
  }

  // The state's table is what q is multiplied by and k divided by, as z.
  PositionState start(const StartContext& context) const override {
    PositionState state{context.positions, rotation_state(position_values(context),
                                                          frequencies(context), context.dtype)};
    const std::int64_t known = integer("max_positions") > 0 ? integer("max_positions") : context_;
    const std::int64_t center = std::max(known, context.positions.length) / 2;
    const double rate = step_ / number("scale_base");
    const at::Tensor exponents = centred(position_ids(context), center, context.angle_dtype) * rate;
    const double d = static_cast<double>(head_dim_);
    const at::Tensor zeta =
        (at::arange(0, head_dim_, 2, context.angle_options()) + 0.4 * d) / (1.4 * d);
    // Counted from a text's first position, ids reach from 0 to the largest distance.
    const auto middle = static_cast<double>(center);
    const double farthest = std::max(middle, std::abs(farthest_apart(context.positions) - middle));
    if (context.positions.length > 0) {
      require_range(farthest * rate * std::log(1.4 / 0.4), exponents.size(-1), context.dtype);
    }
    const at::Tensor scales =
        at::pow(zeta, exponents.unsqueeze(-1)).to(context.dtype).unsqueeze(-2);  // ([B,] N, 1, d/2)
    state.table = scales.dim() == 4 ? scales.unsqueeze(1) : scales.unsqueeze(0).unsqueeze(0);
    return state;
  }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    program.transform(rotate(q, state.z * state.table, layout_),
                      rotate(k, state.z / state.table, layout_));
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override { return {rotation_cost(s)}; }

 private:
  RotationLayout layout_ = layout_of(options_);
};

std::unique_ptr<Encoding> make_xpos(const Json& options, const ModelConfig& model) {
  return std::make_unique<Xpos>(options, model);
}

}  // namespace

EncodingEntry xpos_entry() { return {&xpos_info(), &make_xpos}; }

}  // namespace phasescope::model
