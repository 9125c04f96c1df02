#include "analysis/theory/ape_no_order.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/theory/equality.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kApeNoOrderBound = 1e-12;

at::Tensor index_of(const std::vector<std::int64_t>& values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), out.data_ptr<std::int64_t>());
  return out;
}

CheckResult ape_no_order_alone(const CheckContext& context) {
  constexpr std::int64_t kRows = 8, kChannels = 10;
  Random random(context.seed);
  const auto matrix = [&] {
    return normal_tensor(random, {kChannels, kChannels}) / std::sqrt(double{kChannels});
  };
  const BareAttention attention{matrix(), matrix(), matrix()};
  const at::Tensor x = normal_tensor(random, {7, kChannels}),
                   y = normal_tensor(random, {kRows, kChannels});
  std::vector<std::int64_t> order = random.permutation(kRows),
                            early = random.permutation(kRows - 1);
  early.push_back(kRows - 1);
  const OrderResiduals got = order_residuals(attention, x, y, index_of(order), index_of(early));
  Parts parts;
  parts.below("atn(X, pY) - atn(X, Y)", got.keys, kApeNoOrderBound);
  parts.below("atn(pY, pY) - p atn(Y, Y)", got.own, kApeNoOrderBound);
  parts.below("last row of one causal layer, earlier rows permuted", got.last_row,
              kApeNoOrderBound);
  parts.control("under a causal mask", got.causal, 1e-6);
  parts.control("last row of two causal layers", got.two_layers, 1e-6);
  parts.control("keys permuted without their values", got.keys_alone, 1e-6);
  CheckResult result = parts.result();
  result.curves = {
      curve_of("differences",
               {"both, self, last row; causal, two layers, keys alone", "largest", false, false},
               {0, 1, 2, 3, 4, 5},
               {got.keys, got.own, got.last_row, got.causal, got.two_layers, got.keys_alone})};
  return result;
}

// How far each token's outputs move, below what the verdict allows.
CheckCurve moved_by_token(const std::string& dtype, const OrderInModel& moved, double bound) {
  CheckCurve curve = curve_of("moved in " + dtype, {"token", "difference, relative", false, true},
                              {}, moved.by_token);
  for (std::size_t n = 0; n < moved.by_token.size(); ++n) {
    curve.x.push_back(static_cast<double>(n)), curve.bound.push_back(bound);
  }
  return curve;
}

CheckResult run_ape_no_order(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  if (context.model == nullptr) return ape_no_order_alone(context);
  if (is_import(*context.model)) {
    return not_measured(Verdict::premise_not_met,
                        "premise: outputs; of an import the maps alone are known");
  }
  const at::Tensor ids = first_ids(context, 64);
  if (ids.size(1) < 2) {
    return not_measured(Verdict::undecided, "one token has no other order; two or more have");
  }
  Random random(context.seed);
  const auto order = another_order(random, ids.size(1));
  const auto model64 = in_float64(context.model);
  const OrderInModel wide = order_in_model(model64->decoder, ids, order);
  const OrderInModel narrow = order_in_model(context.model->decoder, ids, order);
  const double off = wide.largest, single = narrow.largest;
  const Measured measured{off, 1e-10, rounding_noise(context, ids).logits, ids.size(1)};
  const model::ModelConfig& config = context.model->config();
  const std::string moved = "permuting the tokens moves the outputs by " + short_number(off) +
                            " in float64, " + short_number(single) + " in float32";
  const bool applies = config.encoding.key == "none" && !config.attention.causal;
  const bool holds = off <= measured.bound && single <= 3 * measured.noise;
  CheckResult result =
      applies ? answer(holds ? Verdict::holds : Verdict::fails, measured, moved)
              : answer(Verdict::premise_not_met, measured,
                       "premise: no encoding and no causal mask; here the encoding is " +
                           config.encoding.key +
                           (config.attention.causal ? " and queries see earlier keys alone" : "") +
                           ": " + moved);
  result.curves = {moved_by_token("float64", wide, measured.bound),
                   moved_by_token("float32", narrow, 3 * measured.noise)};
  return result;
}

}  // namespace

at::Tensor BareAttention::of(const at::Tensor& x, const at::Tensor& y,
                             const at::Tensor& mask) const {
  return of(x, y, y, mask);
}

at::Tensor BareAttention::of(const at::Tensor& x, const at::Tensor& keys, const at::Tensor& values,
                             const at::Tensor& mask) const {
  at::Tensor scores = at::matmul(at::matmul(x, q), at::matmul(keys, k).t()) /
                      std::sqrt(static_cast<double>(q.size(0)));
  if (mask.defined()) {
    scores = scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
  }
  return at::matmul(at::softmax(scores, 1), at::matmul(values, v));
}

OrderResiduals order_residuals(const BareAttention& attention, const at::Tensor& x,
                               const at::Tensor& y, const at::Tensor& permutation,
                               const at::Tensor& early_permutation) {
  const at::Tensor mask = at::ones({y.size(0), y.size(0)}, at::kBool).tril();
  const at::Tensor moved = y.index_select(0, permutation);
  const at::Tensor early = y.index_select(0, early_permutation);
  const auto causal = [&](const at::Tensor& z) { return attention.of(z, z, mask); };
  const auto two_layers = [&](const at::Tensor& z) { return causal(causal(z) + z); };
  OrderResiduals out;
  out.keys = largest_entry(attention.of(x, moved) - attention.of(x, y));
  out.own =
      largest_entry(attention.of(moved, moved) - attention.of(y, y).index_select(0, permutation));
  out.causal = largest_entry(causal(moved) - causal(y).index_select(0, permutation));
  out.last_row = largest_entry(causal(early)[-1] - causal(y)[-1]);
  out.two_layers = largest_entry(two_layers(early)[-1] - two_layers(y)[-1]);
  out.keys_alone = largest_entry(attention.of(x, moved, y, {}) - attention.of(x, y));
  return out;
}

OrderInModel order_in_model(const model::Decoder& decoder, const at::Tensor& ids,
                            const std::vector<std::int64_t>& permutation) {
  const at::NoGradGuard no_gradients;
  model::ForwardOptions plain;
  plain.backend = model::Backend::plain;
  const at::Tensor order = index_of(permutation);
  const at::Tensor there = outputs_of(decoder, ids.index_select(1, order), plain);
  const at::Tensor here = outputs_of(decoder, ids, plain).index_select(1, order);
  const double largest = here.abs().max().item<double>();
  const double size = largest > 0 ? largest : 1;  // of a model whose outputs are 0
  OrderInModel out{relative_difference(there, here), std::vector<double>(permutation.size())};
  for (std::size_t n = 0; n < permutation.size(); ++n) {
    const auto at = static_cast<std::int64_t>(n);
    out.by_token[static_cast<std::size_t>(permutation[n])] =
        (there[0][at] - here[0][at]).abs().max().item<double>() / size;
  }
  return out;
}

TheoryCheck ape_no_order() {
  return {{.id = "ape.no_order",
           .statement = "atn(X, pY) = atn(X, Y): without a mask and an encoding, keys and values "
                        "permuted together change nothing; self-attention's outputs are permuted.",
           .source = "arXiv 2312.16045, Equation 2",
           .title = "Attention alone ignores order",
           .needs = "nothing, or a model (the premise: no encoding, no causal mask)",
           .rule = "holds where both differences are at most 1e-12 in float64 (of a model 1e-10, "
                   "and float32 within 3 times its rounding) and masks and keys alone differ by "
                   "more"},
          &run_ape_no_order,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
