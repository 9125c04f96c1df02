#include "analysis/theory/tape_neighbourhood_mean.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analysis/tensors.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kTapeNeighbourhoodMeanBound = 1e-12;

struct Masked {
  double query_zero = 0, key_zero = 0, residual = 1e300, neither = 1e300, biased = 1e300;
};

Masked measured(const BareLayer& drawn, const at::Tensor& x, const at::Tensor& e,
                const at::Tensor& mask) {
  BareLayer query_zero = drawn, key_zero = drawn;
  query_zero.wq = at::zeros_like(drawn.wq), key_zero.wk = at::zeros_like(drawn.wk);
  const at::Tensor place = at::arange(x.size(0), at::kDouble);
  const at::Tensor alibi = -0.25 * (place.unsqueeze(1) - place).clamp_min(0);
  return {mean_difference(query_zero, x, e, mask), mean_difference(key_zero, x, e, mask),
          mean_difference(query_zero, x, e, mask, {}, true), mean_difference(drawn, x, e, mask),
          mean_difference(query_zero, x, e, mask, alibi)};
}

CheckResult tape_neighbourhood_mean_alone(const CheckContext& context) {
  constexpr std::int64_t kTokens = 11, kChannels = 8;
  Random random(context.seed);
  const BareLayer drawn = BareLayer::drawn(random, kChannels, 12);
  const at::Tensor x = normal_tensor(random, {kTokens, kChannels});
  const at::Tensor e = normal_tensor(random, {kTokens, kChannels, 3});
  Parts parts;
  CheckCurve curve = curve_of("difference from the mean",
                              {"W_Q = 0, W_K = 0; causal, sparse", "largest", false, true}, {}, {});
  for (const auto& [name, mask] : {std::pair{"causal", causal_mask(kTokens)},
                                   std::pair{"sparse", sparse_mask(random, kTokens)}}) {
    const Masked got = measured(drawn, x, e, mask);
    const std::string ending = std::string(", ") + name + " mask";
    parts.below("W_Q = 0" + ending, got.query_zero, kTapeNeighbourhoodMeanBound);
    parts.below("W_K = 0" + ending, got.key_zero, kTapeNeighbourhoodMeanBound);
    parts.control("neither" + ending, got.neither, 1e-6);
    parts.control("residual left" + ending, got.residual, 1e-6);
    parts.control("an Alibi bias" + ending, got.biased, 1e-6);
    for (const double y : {got.query_zero, got.key_zero}) {
      curve.x.push_back(static_cast<double>(curve.x.size())), curve.y.push_back(y);
      curve.bound.push_back(kTapeNeighbourhoodMeanBound);
    }
  }
  CheckResult result = parts.result();
  result.samples = 2 * kTokens;
  result.curves = {std::move(curve)};
  return result;
}

// The model without queries, in float64: weights of its first layer against 1 over what a row sees.
CheckResult tape_neighbourhood_mean_of_model(const CheckContext& context) {
  const auto model64 = in_float64(context.model);
  model::Weights weights = model64->decoder.weights();
  for (model::LayerWeights& layer : weights.layers) {
    for (at::Tensor* x : {&layer.wq, &layer.bq, &layer.q_b, &layer.q_norm_bias}) {
      if (x->defined()) *x = at::zeros_like(*x);
    }
  }
  const auto silent = std::make_shared<const model::Model>(model::Model{
      model64->report, model64->tokenizer,
      model::Decoder(model64->config(), model64->decoder.shared_encoding(), std::move(weights))});
  TextPass pass(silent, first_ids(context, 64), plain_options(context));
  double worst = 0;
  bool products = true, sinks = false;
  std::vector<CheckCurve> curves;
  pass.visit_layers_with_maps([&](const AttentionPointer& attention) {
    const model::AttentionProgram& program = attention->program();
    const auto* table = program.as<model::TableProgram>();
    products =
        products && (program.is<model::PlainProgram>() || program.is<model::TapeProgram>() ||
                     program.is<model::TapaProgram>() || (table != nullptr && table->multiplies));
    sinks = sinks || program.sinks.defined();
    const at::Tensor a = attention->weights(attention->whole())[0];
    const at::Tensor seen = a.gt(0).sum(-1, true).to(a.scalar_type());
    const at::Tensor off = (a * seen - a.gt(0).to(a.scalar_type())).abs();
    worst = worst_of(worst, largest_entry(off));
    CheckCurve& curve =
        curves.emplace_back(curve_of("layer " + std::to_string(attention->layer()),
                                     {"row", "largest difference of its weights", false, true}, {},
                                     to_vector<double>(off.amax({0, 2}))));
    for (std::size_t n = 0; n < curve.y.size(); ++n) {
      curve.x.push_back(static_cast<double>(n)), curve.bound.push_back(kTapeNeighbourhoodMeanBound);
    }
  });
  const Measured measured{worst, kTapeNeighbourhoodMeanBound,
                          rounding_floor(silent->decoder, 64, at::kDouble), pass.tokens()};
  const std::string detail =
      "weights without queries, times the keys that a row sees, differ from "
      "1 by " +
      short_number(worst);
  const char* premise = !products ? "premise: scores made of q.k alone; this encoding adds a bias. "
                        : sinks   ? "premise: weights that sum to 1; here heads have sinks. "
                                  : "";
  CheckResult result = products && !sinks
                           ? answer_below(measured, detail)
                           : answer(Verdict::premise_not_met, measured, premise + detail);
  result.curves = std::move(curves);
  return result;
}

CheckResult run_tape_neighbourhood_mean(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  return context.model == nullptr ? tape_neighbourhood_mean_alone(context)
                                  : tape_neighbourhood_mean_of_model(context);
}

}  // namespace

at::Tensor neighbourhood_mean(const BareLayer& layer, const at::Tensor& x, const at::Tensor& mask) {
  const at::Tensor sees = mask.to(x.scalar_type());
  return at::matmul(sees, at::matmul(x, layer.wv.t())) / sees.sum(1, true);
}

double mean_difference(BareLayer layer, const at::Tensor& x, const at::Tensor& e,
                       const at::Tensor& mask, const at::Tensor& bias, bool residual) {
  layer.attention_residual = residual;
  return largest_entry(run_bare(layer, x, e, mask, bias).attended -
                       neighbourhood_mean(layer, x, mask));
}

TheoryCheck tape_neighbourhood_mean() {
  return {
      {.id = "tape.neighbourhood_mean",
       .statement = "With W_Q = 0 or W_K = 0 and without the attention's residual, row i is the "
                    "mean of W_V x_j over the j that i sees, under any mask and any encoding "
                    "that turns or multiplies q.k.",
       .source = "arXiv 2501.00712, Lemma B.5, corrected",
       .title = "Attention without scores is a mean",
       .needs = "nothing, or a model",
       .rule = "holds where the difference is at most 1e-12 in float64, and larger with the "
               "residual, with both matrices, or under an additive bias"},
      &run_tape_neighbourhood_mean,
      On::model_or_construction};
}

}  // namespace phasescope::analysis
