#include "analysis/theory/tape_special_case.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "analysis/intervals/intervals.h"
#include "analysis/model_sides.h"
#include "analysis/worst.h"
#include "model/loss.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kTapeSpecialCaseTokens = 128;
constexpr std::size_t kTapeSpecialCaseTexts = 16;  // read for the change in loss

constexpr const char* kLinear = "post_attention_linear";
constexpr const char* kUp = "up_proj";      // W1
constexpr const char* kDown = "down_proj";  // W2

bool has_updates(const model::Decoder& decoder) {
  return decoder.weights().layers[0].encoding.contains(kLinear);
}

bool sums_rows(const model::Encoding& encoding) {
  return encoding.options().value(kLinear, "mix") == "rowsum";
}

std::vector<ZeroedCase> equal_cases(const model::Encoding& encoding) {
  std::vector<ZeroedCase> cases = {{"W1 = 0, post-attention linear = 0", {kUp, kLinear}, {}},
                                   {"W2 = 0, post-attention linear = 0", {kDown, kLinear}, {}}};
  if (sums_rows(encoding)) {
    cases.push_back({"W2 = 0, rows of the post-attention linear sum to 0", {kDown}, {kLinear}});
  }
  return cases;
}

// Cases that differ from RoPE wherever the part left alone is not zero: they show that the
// comparison can fail.
std::vector<ZeroedCase> control_cases() {
  return {{"W2 = 0 alone", {kDown}, {}}, {"post-attention linear = 0 alone", {kLinear}, {}}};
}

model::Decoder zeroed_decoder(const model::Decoder& decoder, const ZeroedCase& zeroed) {
  const at::NoGradGuard no_gradients;
  model::Weights weights = decoder.weights();
  for (model::LayerWeights& layer : weights.layers) {
    for (const std::string& name : zeroed.zeroed) {
      layer.encoding[name] = at::zeros_like(layer.encoding.at(name));
    }
    for (const std::string& name : zeroed.centred) {
      const at::Tensor& matrix = layer.encoding.at(name);
      layer.encoding[name] = matrix - matrix.mean(1, true);
    }
  }
  return {decoder.config(), decoder.shared_encoding(), std::move(weights)};
}

// The state that a decoder starts from.
at::Tensor initial_state(const model::Decoder& decoder, std::int64_t tokens) {
  const model::StartContext context = start_context(decoder, tokens, decoder.dtype());
  return decoder.encoding().start(context).z;
}

at::Tensor rope_outputs(const model::Decoder& tape, const at::Tensor& ids) {
  const at::NoGradGuard no_gradients;
  model::ForwardOptions options = plain_run();
  options.initial_state = initial_state(tape, ids.size(1));
  return outputs_of(rope_of(tape), ids, options);
}

double mean_loss(const model::Decoder& decoder, const at::Tensor& ids,
                 const model::ForwardOptions& options) {
  const at::NoGradGuard no_gradients;
  return model::token_losses(decoder, ids, options).mean().item<double>();
}

// What z starts as, as a noun; the model whose state stays there is the one compared with.
std::string name_of_start(const model::Encoding& encoding) {
  const bool random = encoding.options().value("start", "rope") == "random_fourier";
  return random ? "those of its random Fourier features" : "RoPE's";
}

// What resetting the positions to their start costs, text by text, nats a token; nothing without a
// loss.
std::vector<double> loss_changes(const CheckContext& context) {
  const model::Decoder& decoder = context.model->decoder;
  if (!loss_obstacle(decoder.config()).empty()) return {};
  const model::Decoder rope = rope_of(decoder);
  std::vector<double> changes;
  for (const Text& text : context.texts->items) {
    if (changes.size() == kTapeSpecialCaseTexts) break;
    context.progress->throw_if_cancelled();
    if (text.ids.size() < 2) continue;
    const at::Tensor ids = ids_tensor(text.ids);
    const model::ForwardOptions asked = asked_options(context);
    model::ForwardOptions reset = asked;
    reset.initial_state = initial_state(decoder, ids.size(1) - 1);  // the last is a target alone
    changes.push_back(mean_loss(rope, ids, reset) - mean_loss(decoder, ids, asked));
  }
  return changes;
}

void describe_losses(const std::vector<double>& changes, const std::string& start,
                     CheckResult& result) {
  if (changes.empty()) return;
  const Interval change = mean_interval(changes, Draws(result.seed));
  result.detail += "; resetting the positions to " + start + " changes the loss by " +
                   short_number(change.mean) + " nats a token";
  if (change.known()) {
    result.detail += " [" + short_number(*change.low) + ", " + short_number(*change.high) + "] (" +
                     words_of(change) + ")";
  }
  CheckCurve curve{"change in loss", "text", "nats a token", false, false, {}, {}, {}};
  for (std::size_t n = 0; n < changes.size(); ++n) {
    curve.x.push_back(static_cast<double>(n + 1));
    curve.y.push_back(changes[n]);
  }
  result.curves.push_back(std::move(curve));
}

CheckResult without_updates() {
  CheckResult result;
  result.verdict = name_of(Verdict::premise_not_met);
  result.detail =
      "premise: positions that layers update (W1, W2 and a post-attention linear); this "
      "model has none";
  return result;
}

// The bound of a difference in float64: 3 times the rounding of its sums, as in float32, and for a
// small model 1e-12.
double float64_bound(const model::Decoder& decoder, std::int64_t tokens) {
  return std::max(1e-12, 3 * rounding_floor(decoder, tokens, at::kDouble));
}

CheckResult run_tape_special_case(const CheckContext& context) {
  if (!has_updates(context.model->decoder)) return without_updates();
  const at::Tensor ids = first_ids(context, kTapeSpecialCaseTokens);
  const auto model64 = in_float64(context.model);
  CheckResult result;
  result.bound = float64_bound(context.model->decoder, ids.size(1));
  result.samples = ids.size(1);
  result.noise = rounding_noise(context, ids).logits;
  bool holds = true;
  double single = 0;
  for (const ZeroedCase& zeroed : equal_cases(context.model->encoding())) {
    context.progress->progress(-1, zeroed.name);
    const double distance = distance_from_rope(model64->decoder, ids, zeroed);
    holds = holds && distance <= *result.bound;
    result.value = worst_of(result.value.value_or(0), distance);
    single = worst_of(single, distance_from_rope(context.model->decoder, ids, zeroed));
  }
  holds = holds && single <= 3 * *result.noise;
  const std::string start = name_of_start(context.model->encoding());
  result.detail = "largest difference of " + std::string(name_of_outputs(context.model->decoder)) +
                  " from " + start + ": float64 " + short_number(*result.value) + ", float32 " +
                  short_number(single) + " (rounding of sums: " + short_number(*result.noise) + ")";
  for (const ZeroedCase& zeroed : control_cases()) {
    result.detail += "; with " + zeroed.name + " it is " +
                     short_number(distance_from_rope(model64->decoder, ids, zeroed));
  }
  describe_losses(loss_changes(context), start, result);
  result.verdict = name_of(holds ? Verdict::holds : Verdict::fails);
  return result;
}

}  // namespace

model::Decoder rope_of(const model::Decoder& tape) {
  model::ModelConfig config = tape.config();
  model::Json options = model::Json::object();
  for (const char* key : {"base", "layout"}) {
    if (tape.encoding().options().contains(key)) options[key] = tape.encoding().options()[key];
  }
  config.encoding = {"rope", options};
  model::Weights weights = tape.weights();
  weights.encoding.clear();
  for (model::LayerWeights& layer : weights.layers) layer.encoding.clear();
  std::shared_ptr<const model::Encoding> encoding = model::make_encoding(config);
  return {config, std::move(encoding), std::move(weights)};
}

double distance_from_rope(const model::Decoder& decoder, const at::Tensor& ids,
                          const ZeroedCase& zeroed) {
  const at::NoGradGuard no_gradients;
  const at::Tensor outputs = outputs_of(zeroed_decoder(decoder, zeroed), ids, plain_run());
  return relative_difference(outputs, rope_outputs(decoder, ids));
}

TheoryCheck tape_special_case() {
  return {
      {"tape.special_case",
       "With W1 = 0 or W2 = 0, and the post-attention linear zero, the logits are those of the "
       "positions it starts from (in the paper RoPE's rotation).",
       "arXiv 2501.00712, Section 3.3", "With its updates at zero TAPE is RoPE",
       "a TAPE model and a text",
       "holds where both zeroed models' outputs are those of the start to 1e-12 in float64 (or 3 "
       "times the rounding of the sums) and to 3 times its rounding in float32; the change in "
       "loss is a number without verdict"},
      &run_tape_special_case};
}

}  // namespace phasescope::analysis
