// Single attention layers against the papers' public modules and float64 references.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "golden.h"
#include "layer_case.h"
#include "model/attention/attention.h"
#include "model/checkpoints/open_model.h"
#include "model/encodings/tapa.h"
#include "model/rms_norm.h"

namespace phasescope::model {
namespace {

TEST(Tapa, AgreesWithTheFloat64Reference) {
  const Json cases = formats::json_from_file(golden("papers/reference/cases.json"));
  const std::string file = "papers/reference/tapa.safetensors";
  const at::Tensor q = golden_tensor(file, "n17.q");
  int compared = 0;
  for (const Json& item : cases.at("tapa").at("cases")) {
    const std::string key = item.at("key");
    const Json options = {{"alpha", item.at("alpha")},
                          {"split", item.at("amplitude_share")},
                          {"phase", item.at("phase")},
                          {"two_pi", item.at("two_pi")}};
    const ModelConfig config = layer_config("tapa", options, q.size(0), q.size(2));
    expect_layer(config, {}, file, key.substr(0, key.find('.') + 1), key + ".scores", key + ".out",
                 0);
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

TEST(Tapa, GainFoldsIntoTheWeightsAndNormBringsThePhasePartToItsSize) {
  const std::string file = "papers/reference/tapa.safetensors";
  const at::Tensor q = golden_tensor(file, "n17.q").to(at::kDouble);
  const at::Tensor k = golden_tensor(file, "n17.k").to(at::kDouble);
  const std::int64_t half = q.size(2) / 2;
  const auto folded = [&](const at::Tensor& x, double gain) {
    return at::cat({x.narrow(-1, 0, half), x.narrow(-1, half, half) * gain}, -1);
  };
  const auto scores = [&](const Json& options, const at::Tensor& a, const at::Tensor& b) {
    const Layer layer =
        layer_of(layer_config("tapa", options, q.size(0), q.size(2)), {}, a, b, a, at::kDouble);
    return plain_scores(layer.program, {0, q.size(0)}, {0, 17}, {0, 17}).nan_to_num(0, 0, 0);
  };
  EXPECT_LT(relative_error(scores({{"phase_gain", 0.2}}, q, k),
                           scores(Json::object(), folded(q, 0.2), folded(k, 0.2))),
            1e-14);
  const Layer normed = layer_of(layer_config("tapa", {{"phase_norm", 0.3}}, q.size(0), q.size(2)),
                                {}, q, k, q, at::kDouble);
  const at::Tensor size = normed.program.q.narrow(-1, half, half).square().mean(-1).sqrt();
  EXPECT_NEAR(size.min().item<double>(), 0.3, 1e-4);
  EXPECT_NEAR(size.max().item<double>(), 0.3, 1e-4);
}

TEST(Tapa, FoldedWeightsGiveTheSameLogitsWithoutAGain) {
  ModelConfig config = tiny_config("tapa", {{"phase_gain", 0.2}});
  set_field(config, "attention_bias", "true");
  const auto model = random_model(config, 4, at::kDouble);
  Weights weights = model->decoder.weights();
  for (LayerWeights& layer : weights.layers) layer.bq = at::ones_like(layer.bq);
  const auto gained = model_of(config, weights, "with a gain");
  fold_phase_gain(config, weights);
  EXPECT_EQ(config.encoding.options.at("phase_gain"), 1.0);
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(1, 30, config.vocab_size);
  EXPECT_LT(relative_error(model_of(config, weights, "folded")->decoder.forward(ids),
                           gained->decoder.forward(ids)),
            1e-12);
}

TEST(Cape, AgreesWithThePublicModuleOverAlibi) {
  const std::string file = "papers/dape/alibi_dape.safetensors";
  Parameters parameters = correction(file, "w.mlp2.");
  const ModelConfig config = layer_config("cape", {{"base", "alibi"}}, 12, 8);
  expect_layer(config, parameters, file, "n17.", "n17.scores", "n17.out",
               recorded_loss("alibi_dape", "n17"));
  expect_layer(config, parameters, file, "n33.", "n33.scores_f64", "n33.out",
               recorded_loss("alibi_dape", "n33"));
}

TEST(Cape, AgreesWithThePublicModuleOverKerple) {
  const std::string file = "papers/dape/kerple_log_dape.safetensors";
  Parameters parameters = correction(file, "w.mlp2.");
  parameters["p"] = golden_tensor(file, "w.bias_p").flatten();
  parameters["a"] = golden_tensor(file, "w.bias_a").flatten();
  const ModelConfig config = layer_config("cape", {{"base", "kerple_log"}}, 8, 8);
  expect_layer(config, parameters, file, "n17.", "n17.scores", "n17.out",
               recorded_loss("kerple_log_dape", "n17"));
  expect_layer(config, parameters, file, "n33.", "n33.scores_f64", "n33.out",
               recorded_loss("kerple_log_dape", "n33"));
  // The public code writes the clamped values back.
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  encoding->constrain(parameters);
  EXPECT_EQ(relative_error(parameters["p"], golden_tensor(file, "clamped.bias_p").flatten()), 0);
  EXPECT_EQ(relative_error(parameters["a"], golden_tensor(file, "clamped.bias_a").flatten()), 0);
}

TEST(Cape, AllFormsAgreeWithTheFloat64Reference) {
  const std::string file = "papers/reference/cape_variants.safetensors";
  for (const std::string form : {"concat", "concat_residual", "add_residual"}) {
    Parameters parameters = correction(file, form + ".");
    parameters["p"] = golden_tensor(file, "kerple.p");
    parameters["a"] = golden_tensor(file, "kerple.a");
    const ModelConfig config = layer_config("cape", {{"base", "kerple_log"}, {"form", form}}, 4, 8);
    expect_layer(config, parameters, file, "", form + ".scores", form + ".out", 0);
  }
}

// cape.reduces: with f = 0, concat_residual is the base encoding.
TEST(Cape, WithoutACorrectionItIsItsBase) {
  const std::string file = "papers/reference/cape_variants.safetensors";
  Parameters parameters = correction(file, "concat_residual.");
  parameters["p"] = golden_tensor(file, "kerple.p");
  parameters["a"] = golden_tensor(file, "kerple.a");
  for (const char* name : {"mlp.2.weight", "mlp.2.bias"}) {
    parameters[name] = at::zeros_like(parameters[name]);
  }
  const at::Tensor q = golden_tensor(file, "q");
  const at::Tensor k = golden_tensor(file, "k");
  const Layer cape =
      layer_of(layer_config("cape", Json::object(), 4, 8), parameters, q, k, q, at::kDouble);
  const Layer kerple =
      layer_of(layer_config("kerple_log", Json::object(), 4, 8), parameters, q, k, q, at::kDouble);
  EXPECT_LT(relative_error(attention(cape.program, cape.v, {.backend = Backend::plain}).out,
                           attention(kerple.program, kerple.v, {.backend = Backend::plain}).out),
            1e-14);
}

TEST(RmsNorm, OnePassIsThePlainFormWithItsGradients) {
  at::manual_seed(3);
  for (const std::int64_t width : {1, 7, 16, 50}) {
    const at::Tensor x = at::randn({3, 41, width});
    const at::Tensor weight = at::randn({width});
    const at::Tensor upstream = at::randn({3, 41, width});
    const auto run = [&](at::ScalarType dtype, bool plain) {
      const at::Tensor a = x.to(dtype).detach().clone().set_requires_grad(true);
      const at::Tensor w = weight.to(dtype).detach().clone().set_requires_grad(true);
      const at::Tensor y = plain ? plain_rms_norm(a, w, 1e-5) : rms_norm(a, w, 1e-5, dtype);
      (y * upstream.to(dtype)).sum().backward();
      return std::vector<at::Tensor>{y.detach(), a.grad(), w.grad()};
    };
    const auto truth = run(at::kDouble, true);
    const auto plain = run(at::kFloat, true);
    const auto ours = run(at::kFloat, false);
    for (std::size_t n = 0; n < truth.size(); ++n) {
      // At width 1 the gradient vanishes up to eps, and rounding is all there is.
      const double scale = std::max(truth[n].abs().max().item<double>(), 0.1);
      const auto error = [&](const std::vector<at::Tensor>& x) {
        return (x[n].to(at::kDouble) - truth[n]).abs().max().item<double>() / scale;
      };
      EXPECT_LE(error(ours), 2 * error(plain) + 1e-6) << width << " " << n;
    }
  }
}

TEST(Biases, AlibiSlopesAreThePapersForAnyNumberOfHeads) {
  for (const std::int64_t heads : {1, 2, 3, 5, 8, 12, 16, 20, 40}) {
    const auto encoding = make_encoding(layer_config("alibi", Json::object(), heads, 8));
    const at::Tensor slopes = -encoding->bias_table({}, 2, at::kDouble).select(1, 1);
    const std::string file = "papers/reference/biases.safetensors";
    const at::Tensor expected = golden_tensor(file, "alibi_slopes." + std::to_string(heads));
    EXPECT_LT(noted("alibi", file, "f64", relative_error(slopes, expected)), 1e-15) << heads;
  }
}

TEST(Biases, KerpleIsTheReferencesAtAllDistances) {
  const std::string file = "papers/reference/biases.safetensors";
  const at::Tensor distance = golden_tensor(file, "kerple.distance").to(at::kLong);
  const at::Tensor p = golden_tensor(file, "kerple.p");
  const Parameters parameters = {{"p", p}, {"a", golden_tensor(file, "kerple.a_log")}};
  const auto encoding = make_encoding(layer_config("kerple_log", Json::object(), p.size(0), 8));
  const at::Tensor table =
      encoding->bias_table(parameters, distance.max().item<std::int64_t>() + 1, at::kDouble);
  EXPECT_LT(
      noted("kerple_log", file, "f64",
            relative_error(table.index_select(1, distance), golden_tensor(file, "kerple.log"))),
      1e-14);
}

}  // namespace
}  // namespace phasescope::model
