#include "analysis/theory/tape_identity_layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/theory/equality.h"
#include "analysis/theory/orthogonal_matrices.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

// Hidden states, and position states by the encoding that reads them: layers may have others, whose
// states are no updates of each other.
class Recorder final : public model::Observer {
 public:
  explicit Recorder(const model::Decoder& decoder) : decoder_(decoder) {}
  void on_hidden(std::int64_t, const at::Tensor& hidden) override { hiddens.push_back(hidden); }
  void on_position(std::int64_t index, const model::PositionState& state) override {
    if (!state.z.defined()) return;
    const bool behind = index == decoder_.config().layers;
    const model::Encoding& own = behind ? decoder_.encoding() : decoder_.encoding_of(index);
    // What stands behind the last layer is of the model's own encoding, which no layer may read.
    if (behind && !states.contains(&own)) return;
    states[&own].push_back(state.z);
  }
  std::vector<at::Tensor> hiddens;
  std::map<const model::Encoding*, std::vector<at::Tensor>> states;

 private:
  const model::Decoder& decoder_;
};

void cleared(at::Tensor& x) {
  if (x.defined()) x = x * 0;  // what is no number stays none
}

// W_V; or W_O where values are made of what keys are made of, or of a state.
void clear_values(model::LayerWeights& layer) {
  cleared(layer.wv), cleared(layer.bv);
  if (!layer.wv.defined()) cleared(layer.wo);
  cleared(layer.linear_out);
}

// What an MLP or an expert ends with.
template <class Units>
void clear_end(Units& units) {
  cleared(units.down), cleared(units.down_bias);
}

bool adds_more(const model::LayerWeights& layer) {
  return layer.layer_input.defined() || layer.layer_scale.defined() ||
         layer.stream_router.defined() || layer.low_rank_in.defined();
}

// The premise that a model does not meet, and what it has in its place; empty where it meets all.
std::string unlike_the_lemma(const model::Model& model) {
  const model::Decoder& decoder = model.decoder;
  const model::ModelConfig& config = decoder.config();
  if (config.encoder_layers > 0) {
    return "residuals past two branches; here a third one reads an encoder";
  }
  if (config.norm.placement != "pre") {
    return "residuals past both branches, their norms before them; this model's norms are \"" +
           config.norm.placement + "\"";
  }
  if (std::ranges::any_of(decoder.weights().layers, adds_more)) {
    return "an attention and an MLP past which the residuals go; here layers add or scale more";
  }
  if (is_import(model)) {
    return "a residual past an attention with values; of an import the maps alone are known";
  }
  return {};
}

// A model of layers that do nothing: W_V, what the MLP ends with, and the updates of positions 0.
model::Decoder without_branches(const model::Decoder& decoder, bool with_values) {
  model::Weights weights = decoder.weights();
  for (model::LayerWeights& layer : weights.layers) {
    if (!with_values) clear_values(layer);
    cleared(layer.bo), clear_end(layer), clear_end(layer.shared_expert);
    for (model::ExpertWeights& expert : layer.experts) clear_end(expert);
    for (model::ExpertWeights& expert : layer.shared_experts) clear_end(expert);
    for (const char* name :
         {"post_attention_linear", "post_attention_linear.0", "post_attention_linear.1",
          "down_proj", "down_proj.0", "down_proj.1"}) {
      const auto found = layer.encoding.find(name);
      if (found != layer.encoding.end()) cleared(found->second);
    }
  }
  return {decoder.config(), decoder.shared_encoding(), std::move(weights)};
}

double moved(const std::vector<at::Tensor>& states) {
  double worst = 0;
  for (const at::Tensor& state : states) {
    worst = worst_of(worst, largest_entry(state - states.front()));
  }
  return worst;
}

// How far layers have moved what they read.
struct Moves {
  double hidden = 0;
  std::optional<double> state;  // none of a model without states
  std::int64_t samples = 0;     // hidden states
};

Moves moves_of(const Recorder& recorder) {
  Moves out{moved(recorder.hiddens), std::nullopt,
            static_cast<std::int64_t>(recorder.hiddens.size())};
  for (const auto& [encoding, states] : recorder.states) {
    out.state = worst_of(out.state.value_or(0), moved(states));
  }
  return out;
}

CheckResult tape_identity_layer_of_model(const CheckContext& context) {
  const std::string unmet = unlike_the_lemma(*context.model);
  if (!unmet.empty()) return not_measured(Verdict::premise_not_met, "premise: " + unmet);
  const at::Tensor ids = first_ids(context, 64);
  const auto run_tape_identity_layer = [&](bool with_values) {
    const model::Decoder decoder = without_branches(context.model->decoder, with_values);
    Recorder recorder(decoder);
    decoder.hidden(ids, plain_options(context), &recorder);
    return moves_of(recorder);
  };
  const Moves got = run_tape_identity_layer(false), control = run_tape_identity_layer(true);
  Parts parts;
  parts.below("hidden states of every layer from the embedding, float32", got.hidden, 0);
  if (got.state) parts.below("position states from the first", *got.state, 0);
  parts.control("with W_V left", control.hidden, 0);
  CheckResult result = parts.result();
  result.samples = got.samples;
  return result;
}

CheckResult tape_identity_layer_alone(const CheckContext& context) {
  constexpr std::int64_t kTokens = 11, kChannels = 8, kUnits = 12;
  Random random(context.seed);
  const BareLayer drawn = BareLayer::drawn(random, kChannels, kUnits);
  const at::Tensor x = normal_tensor(random, {kTokens, kChannels});
  const at::Tensor e = normal_tensor(random, {kTokens, kChannels, 3});
  const at::Tensor mask = sparse_mask(random, kTokens);
  const BareLayer right = identity_layer(drawn);
  BareLayer biased = right, no_residual = right, valued = right;
  biased.b2 = drawn.b2, no_residual.attention_residual = false, valued.wv = drawn.wv;
  const auto off = [&](const BareLayer& layer) { return identity_difference(layer, x, e, mask); };
  Parts parts;
  parts.below("|f(X) - X|", off(right), 0);
  parts.control("with the MLP's last bias left", off(biased), 0);
  parts.control("without the attention's residual", off(no_residual), 0);
  parts.control("with W_V left", off(valued), 0);
  CheckResult result = parts.result();
  result.samples = kTokens;
  result.curves = {
      curve_of("|f(X) - X|", {"right, bias left, no residual, W_V left", "largest", false, false},
               {0, 1, 2, 3}, {off(right), off(biased), off(no_residual), off(valued)})};
  return result;
}

CheckResult run_tape_identity_layer(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  return context.model == nullptr ? tape_identity_layer_alone(context)
                                  : tape_identity_layer_of_model(context);
}

}  // namespace

BareLayer identity_layer(BareLayer layer) {
  layer.wv = at::zeros_like(layer.wv);
  layer.w2 = at::zeros_like(layer.w2);
  layer.b2 = at::zeros_like(layer.b2);
  return layer;
}

double identity_difference(const BareLayer& layer, const at::Tensor& x, const at::Tensor& e,
                           const at::Tensor& mask) {
  return largest_entry(run_bare(layer, x, e, mask).out - x);
}

TheoryCheck tape_identity_layer() {
  return {
      {.id = "tape.identity_layer",
       .statement = "With W_V = 0, the MLP's last matrix and bias 0 and both residuals, f(X, E, "
                    "M) = X; with the post-attention linear 0 and W2 = 0 too, g = E.",
       .source = "arXiv 2501.00712, Lemma B.4, corrected",
       .title = "A layer that changes nothing",
       .needs = "nothing, or a model whose norms stand before their branches",
       .rule = "holds where the difference is exactly 0, and is not with the last bias or W_V "
               "left or without a residual"},
      &run_tape_identity_layer,
      On::model_or_construction};
}

}  // namespace phasescope::analysis
