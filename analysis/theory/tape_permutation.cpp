#include "analysis/theory/tape_permutation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>
#include <string>

#include "analysis/random.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kTapePermutationTokens = 64;
constexpr int kPermutations = 3;
constexpr double kTapePermutationBound =
    1e-10;  // float64, several layers, whose roundings add up to some 1e-13

// Hidden states and position states of every layer.
class StateRecorder final : public model::Observer {
 public:
  void on_hidden(std::int64_t, const at::Tensor& hidden) override { hiddens.push_back(hidden); }
  void on_position(std::int64_t, const model::PositionState& state) override {
    if (state.z.defined()) states.push_back(state.z);
  }
  std::vector<at::Tensor> hiddens, states;
};

// A permutation is itself another order of summation: what other orders move of the same quantities
// in float32, and at least what their roundings may.
double hidden_noise(const CheckContext& context, const at::Tensor& ids) {
  const at::NoGradGuard no_gradients;
  StateRecorder base;
  context.model->decoder.hidden(ids, plain_options(context), &base);
  double noise = rounding_floor(context.model->decoder, ids.size(1), at::kFloat);
  for (std::uint64_t n = 0; n < 3; ++n) {
    StateRecorder other;
    reordered(context.model, context.seed + n)->decoder.hidden(ids, asked_options(context), &other);
    for (std::size_t l = 0; l < base.hiddens.size(); ++l) {
      noise = worst_of(noise, relative_difference(other.hiddens[l], base.hiddens[l]));
    }
    for (std::size_t l = 0; l < base.states.size(); ++l) {
      noise = worst_of(noise, relative_difference(other.states[l], base.states[l]));
    }
  }
  return noise;
}

CheckResult judge(const PermutationResidual& exact, double single, double noise,
                  const CheckContext& context) {
  CheckResult result;
  result.value = exact.largest();
  result.bound = kTapePermutationBound;
  result.noise = noise;
  result.samples = kPermutations;
  const bool holds = exact.largest() <= kTapePermutationBound && single <= 3 * noise;
  result.verdict = name_of(holds ? Verdict::holds : Verdict::fails);
  result.detail = "float64: hidden states move by " + short_number(exact.hidden) +
                  ", position states by " + short_number(exact.states) + "; float32 by " +
                  short_number(single) + " (rounding of sums: " + short_number(noise) + ")";
  if (!context.model->encoding().has_state()) {
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail = "premise: a position state; this encoding has none. Measured all the same: " +
                    result.detail;
  }
  return result;
}

// What else than the mask and the positions tells tokens' places in memory; empty for nothing.
std::string reads_memory(const model::Decoder& decoder) {
  if (!decoder.config().linear.layers.empty()) {
    return "layers have a state that reads them one after another";
  }
  return decoder.config().attention.convolution > 0 ? "convolutions read the tokens beside them"
                                                    : "";
}

// The premise that a model does not meet, and what it has in its place; empty where it meets all.
std::string unmet_premise(const model::Model& model) {
  const model::Decoder& decoder = model.decoder;
  const model::AttentionConfig& attention = decoder.config().attention;
  if (is_import(model)) return "hidden states; of an import the maps alone are known";
  if (decoder.config().encoder_layers > 0) {
    return "one stack of layers, whose tokens are permuted; here a decoder reads an encoder's";
  }
  if (const std::string how = reads_memory(decoder); !how.empty()) {
    return "tokens that meet in attention alone; here " + how;
  }
  if ((attention.window > 0 || attention.chunk > 0) && !attention.local_layers.empty()) {
    return "one mask for all layers, which is permuted with the tokens; here some layers have a "
           "window of " +
           std::to_string(attention.window > 0 ? attention.window : attention.chunk) + " tokens";
  }
  if (attention.log_scale > 0) {
    return "places that only the positions tell; here the n-th token's query is multiplied by "
           "ln(n) / ln(" +
           short_number(attention.log_scale) + "), wherever it is said to stand";
  }
  return {};
}

CheckResult run_tape_permutation(const CheckContext& context) {
  const std::string unmet = unmet_premise(*context.model);
  if (!unmet.empty()) return not_measured(Verdict::premise_not_met, "premise: " + unmet);
  const at::Tensor ids = first_ids(context, kTapePermutationTokens);
  if (ids.size(1) < 2) {
    return not_measured(Verdict::undecided, "one token has no other order; two or more have");
  }
  const auto model64 = in_float64(context.model);
  Random random(context.seed);
  PermutationResidual exact;
  double single = 0;
  CheckCurve curve{"float64", "permutation", "largest residual", false, true, {}, {}, {}};
  for (int n = 0; n < kPermutations; ++n) {
    context.progress->throw_if_cancelled();
    context.progress->progress(static_cast<double>(n) / kPermutations, "permuting tokens");
    const auto permutation = another_order(random, ids.size(1));
    const auto residual = permutation_residual(model64->decoder, ids, permutation);
    exact.hidden = worst_of(exact.hidden, residual.hidden);
    exact.states = worst_of(exact.states, residual.states);
    const auto rounded = permutation_residual(context.model->decoder, ids, permutation);
    single = worst_of(single, rounded.largest());
    curve.x.push_back(n + 1), curve.y.push_back(residual.largest()),
        curve.bound.push_back(kTapePermutationBound);
  }
  CheckResult result = judge(exact, single, hidden_noise(context, ids), context);
  result.curves.push_back(std::move(curve));
  return result;
}

}  // namespace

PermutationResidual permutation_residual(const model::Decoder& decoder, const at::Tensor& ids,
                                         const std::vector<std::int64_t>& permutation,
                                         bool permute_mask) {
  const at::NoGradGuard no_gradients;
  const std::int64_t tokens = ids.size(1);
  at::Tensor order = at::empty({tokens}, at::kLong);
  std::copy(permutation.begin(), permutation.end(), order.data_ptr<std::int64_t>());
  const at::Tensor there = order.to(decoder.device());
  at::Tensor seen = at::ones({tokens, tokens}, at::kBool);
  if (decoder.config().attention.causal) seen = seen.tril();
  model::ForwardOptions plain;
  plain.backend = model::Backend::plain;
  model::ForwardOptions permuted = plain;
  permuted.mask = permute_mask ? seen.index_select(0, order).index_select(1, order) : seen;

  StateRecorder before, after;
  const bool ids_are_rows = decoder.encoding().options().value("ids_are_rows", false);
  // Both runs are told where the tokens stand: what the configuration draws or maps is for texts.
  if (!ids_are_rows) plain.position_ids = at::arange(tokens, at::kLong);
  decoder.hidden(ids, plain, &before);
  if (ids_are_rows) {
    // Then ids say whose state is read: the state itself is permuted.
    permuted.initial_state = before.states.front().index_select(2, there);
  } else {
    permuted.position_ids = order;
  }
  decoder.hidden(ids.index_select(1, order), permuted, &after);
  PermutationResidual out;
  for (std::size_t l = 0; l < before.hiddens.size(); ++l) {
    const at::Tensor expected = before.hiddens[l].index_select(1, there);
    out.hidden = worst_of(out.hidden, relative_difference(after.hiddens[l], expected));
  }
  for (std::size_t l = 0; l < before.states.size(); ++l) {
    const at::Tensor expected = before.states[l].index_select(2, there);
    out.states = worst_of(out.states, relative_difference(after.states[l], expected));
  }
  return out;
}

TheoryCheck tape_permutation() {
  return {{"tape.permutation",
           "f(PX, PE, P M P^T) = P f(X, E, M), and the same for the positions, for every "
           "permutation P of the tokens (the mask permuted with them).",
           "arXiv 2501.00712, Proposition 3.1, Equation 4",
           "The order of the tokens in memory means nothing",
           "a model whose layers see the same pairs, and a text",
           "holds where three permutations move hidden and position states by at most 1e-10 in "
           "float64, and float32 by at most 3 times what another order of summation does"},
          &run_tape_permutation};
}

}  // namespace phasescope::analysis
