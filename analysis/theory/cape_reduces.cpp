#include "analysis/theory/cape_reduces.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analysis/random.h"
#include "analysis/theory/equality.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kCapeReducesBound = 1e-12;  // at least; else 3 times the rounding of the sums

std::shared_ptr<const model::Model> small_cape(const std::string& form, const std::string& base,
                                               std::uint64_t seed) {
  model::ModelConfig config;
  config.vocab_size = 32, config.width = 16, config.layers = 2;
  config.heads = config.kv_heads = 2, config.head_dim = 8, config.ffn_width = 24;
  config.context = 64, config.init_std = 0.3;
  config.encoding = {"cape", {{"form", form}, {"base", base}}};
  return model::random_model(config, seed, at::kDouble);
}

at::Tensor drawn_ids(std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int64_t> ids;
  for (int n = 0; n < 32; ++n) ids.push_back(random.below(32));
  return ids_tensor(ids);
}

CheckResult cape_reduces_alone(const CheckContext& context) {
  const at::Tensor ids = drawn_ids(context.seed);
  double worst = 0, control = 1e300, bound = kCapeReducesBound;
  std::int64_t cases = 0;
  CheckCurve curve =
      curve_of("difference from the base", {"form and base", "relative", false, true}, {}, {});
  for (const char* form : {"concat_residual", "concat", "add_residual", "content", "conv"}) {
    for (const char* base : {"alibi", "kerple_log", "fire"}) {
      const auto cape = small_cape(form, base, context.seed + 1);
      bound = std::max(kCapeReducesBound, 3 * rounding_floor(cape->decoder, 32, at::kDouble));
      const double off = difference_from_base(without_output(cape->decoder), ids);
      worst = worst_of(worst, off);
      control = std::min(control, difference_from_base(cape->decoder, ids));
      curve.x.push_back(static_cast<double>(cases++)), curve.y.push_back(off);
      curve.bound.push_back(bound);
    }
  }
  Parts parts;
  parts.below("outputs of CAPE with f = 0 from its base's, five forms on three bases", worst,
              bound);
  parts.control("with f left", control, 1e-9);
  CheckResult result = parts.result();
  result.samples = cases;
  result.curves = {std::move(curve)};
  return result;
}

CheckResult cape_reduces_of_model(const CheckContext& context) {
  const model::ModelConfig& config = context.model->config();
  if (config.encoding.key != "cape" || context.model->encoding().options().value("rotate", false)) {
    return not_measured(
        Verdict::premise_not_met,
        "premise: scores that CAPE corrects, not rotated; this model's encoding is " +
            config.encoding.key);
  }
  const at::Tensor ids = first_ids(context, 64);
  const auto model64 = in_float64(context.model);
  const double off = difference_from_base(without_output(model64->decoder), ids);
  const double left = difference_from_base(model64->decoder, ids);
  const double single = difference_from_base(without_output(context.model->decoder), ids);
  const double noise = rounding_noise(context, ids).logits;
  Parts parts;
  parts.below(
      "outputs with f = 0 from the base's, float64", off,
      std::max(kCapeReducesBound, 3 * rounding_floor(model64->decoder, ids.size(1), at::kDouble)));
  parts.below("float32", single, 3 * noise);
  parts.report("with f left", left);
  CheckResult result = parts.result(noise);
  result.samples = ids.size(1);
  return result;
}

CheckResult run_cape_reduces(const CheckContext& context) {
  const at::NoGradGuard no_gradients;
  return context.model == nullptr ? cape_reduces_alone(context) : cape_reduces_of_model(context);
}

}  // namespace

model::Decoder without_output(const model::Decoder& cape) {
  model::Weights weights = cape.weights();
  for (model::LayerWeights& layer : weights.layers) {
    for (const char* name : {"mlp.2.weight", "mlp.2.bias"}) {
      layer.encoding[name] = layer.encoding.at(name) * 0;  // what is no number stays none
    }
  }
  return {cape.config(), cape.shared_encoding(), std::move(weights)};
}

model::Decoder base_of(const model::Decoder& cape) {
  const model::Json& options = cape.encoding().options();
  const std::string form = options.at("form");
  model::ModelConfig config = cape.config();
  config.encoding = {"none", model::Json::object()};
  if (form != "concat" && form != "content") {
    config.encoding.key = options.at("base").get<std::string>();
    if (config.encoding.key == "fire") {
      config.encoding.options = {{"activation", "leaky_relu"},
                                 {"hidden", options.at("base_hidden")},
                                 {"threshold", options.at("base_threshold")}};
    }
  }
  std::shared_ptr<const model::Encoding> encoding = model::make_encoding(config);
  return {config, std::move(encoding), cape.weights()};
}

double difference_from_base(const model::Decoder& cape, const at::Tensor& ids) {
  const at::NoGradGuard no_gradients;
  return relative_difference(outputs_of(cape, ids, plain_run()),
                             outputs_of(base_of(cape), ids, plain_run()));
}

TheoryCheck cape_reduces() {
  return {
      {.id = "cape.reduces",
       .statement = "With f = 0, concat_residual, add_residual and conv give the base encoding's "
                    "logits, concat and content those of no encoding.",
       .source = "arXiv 2405.14722, Equations 2 to 5; conv: arXiv 2410.04798",
       .title = "Without its correction CAPE is its base",
       .needs = "nothing, or a CAPE model",
       .rule = "holds where outputs with f's last layer 0 equal the base's to 1e-12 in float64 "
               "(or 3 times the rounding of its sums), float32 to 3 times its rounding, and "
               "those with f left do not"},
      &run_cape_reduces,
      On::model_or_construction};
}

}  // namespace phasescope::analysis
