#include "model/encodings/fope.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "formats/error.h"
#include "model/encoding_cost.h"
#include "model/encodings/rotation.h"

namespace phasescope::model {
namespace {

const EncodingInfo& fope_info() {
  static const EncodingInfo info = {
      .key = "fope",
      .title = "FoPE (Fourier series in place of single frequencies)",
      .formula =
          "s_ij = (Z_i q_i).(Z_j k_j) / sqrt(d), plane m of Z_n times cos(w_m n) + sum_l a_hlm "
          "cos(w_l n) + i (sin(w_m n) + sum_l b_hlm sin(w_l n)) where w_m > 2 pi / context, times "
          "1 elsewhere",
      .source =
          "Hua et al. 2024, Fourier Position Embedding, arXiv 2412.17739; a and b apart, by head "
          "and "
          "drawn once, as its public code",
      .departure = "a and b are not divided by their sums, as the public code can",
      .options = {base_option(),
                  layout_option(),
                  {"learned", false, "a and b are trained"},
                  {"deviation",
                   0.3,
                   "of the first a and b, times 1 / sqrt(planes that turn)",
                   {},
                   kAboveZero,
                   kNoLimit}},
      .under_shift = {UnderShift::Kind::moves,
                      "products of different frequencies depend on both positions"},
      .has_state = true,
  };
  return info;
}

class Fope final : public Encoding {
 public:
  Fope(const Json& options, const ModelConfig& model)
      : Encoding(options, model), layout_(layout_of(options)) {
    require_pairs("fope", head_dim_);
    require_key_heads("fope", heads_, kv_heads_);
    // Turned once at least over a text of the trained length.
    const double least = 2 * std::numbers::pi / static_cast<double>(context_);
    trained_ = (rope_frequencies(number("base"), head_dim_, at::kDouble) > least)
                   .sum()
                   .item<std::int64_t>();
    if (trained_ == 0) {
      throw formats::bad_input(
          "no plane of fope turns once within a context of " + std::to_string(context_) + " tokens",
          "fope.base");
    }
  }

  const EncodingInfo& info() const override { return fope_info(); }

  std::vector<ParameterSpec> shared_parameters() const override {
    std::vector<ParameterSpec> specs;
    for (const char* name : {"cos_coef", "sin_coef"}) {
      specs.push_back({.name = name,
                       .shape = {heads_, trained_, trained_},
                       .low = number("deviation") / std::sqrt(static_cast<double>(trained_)),
                       .trainable = flag("learned"),
                       .decays = false});
    }
    return specs;
  }

  // z (B or 1, H, N, 2, d/2).
  PositionState start(const StartContext& context) const override {
    const at::Tensor positions = position_values(context);
    const at::Tensor given = positions.dim() == 2 ? positions : positions.unsqueeze(0);
    const at::Tensor frequencies =
        rope_frequencies(number("base"), head_dim_, context.angle_options()).slice(0, 0, trained_) *
        step_;
    const at::Tensor angles = given.unsqueeze(1).unsqueeze(-1) * frequencies;  // (B, 1, N, F)
    const auto series = [&](const at::Tensor& waves, const char* coefficients, double rest) {
      const at::Tensor of_heads = context.shared->at(coefficients).to(context.angle_dtype);
      const at::Tensor sum = waves + at::matmul(waves, of_heads);  // (B, H, N, F)
      return at::constant_pad_nd(sum, {0, head_dim_ / 2 - trained_}, rest);
    };
    const at::Tensor z =
        at::stack({series(angles.cos(), "cos_coef", 1), series(angles.sin(), "sin_coef", 0)}, -2);
    return {context.positions, z.to(context.dtype)};
  }

  Pieces in_pieces(std::int64_t) const override { return {Pieces::Kind::tokens}; }

  AttentionProgram program(const Parameters&, const at::Tensor& q, const at::Tensor& k,
                           const PositionState& state) const override {
    AttentionProgram program = unrotated(q, k, state);
    program.transform(rotate(q, state.z, layout_), rotate(k, state.z, layout_));
    return program;
  }

  std::vector<EncodingCost> cost(const CostSizes& s) const override {
    const double planes = static_cast<double>(trained_);
    return {rotation_cost(s),
            token_cost("Fourier series", s, 2 * s.heads * planes * planes / s.layers)};
  }

 private:
  RotationLayout layout_;
  std::int64_t trained_ = 0;  // planes that turn, the first ones
};

std::unique_ptr<Encoding> make_fope(const Json& options, const ModelConfig& model) {
  return std::make_unique<Fope>(options, model);
}

}  // namespace

EncodingEntry fope_entry() { return {&fope_info(), &make_fope}; }

}  // namespace phasescope::model
