#include "analysis/intrinsic_bias.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "analysis/random.h"
#include "analysis/tensors.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/rope_intrinsic_bias.h"
#include "broken_encodings.h"
#include "golden_tape.h"

namespace phasescope::analysis {
namespace {

using testing::golden_json;
using testing::golden_tensor;
using testing::ModelPointer;

at::Tensor bias_tensor(const std::string& name) {
  return golden_tensor("rope_bias.safetensors", name);
}

std::vector<double> golden_frequencies() {
  const formats::Json about = golden_json("rope_bias.json");
  const double base = about["base"];
  const std::int64_t dim = about["D"];
  std::vector<double> frequencies;
  for (std::int64_t m = 0; m < dim / 2; ++m) {
    frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(m) / static_cast<double>(dim)));
  }
  return frequencies;
}

TEST(IntrinsicBias, EqualsTheReference) {
  const PlaneProducts products =
      plane_products(bias_tensor("q"), bias_tensor("k"), PlaneLayout::interleaved);
  EXPECT_LT(relative_difference(products.a, bias_tensor("A")), 1e-14);
  EXPECT_LT(relative_difference(products.b, bias_tensor("B")), 1e-14);
  const PlaneMeans means{to_vector<double>(products.a.mean(0)),
                         to_vector<double>(products.b.mean(0))};
  const formats::Json about = golden_json("rope_bias.json");
  EXPECT_NEAR(means.mean_mu(), about["mu_0"].get<double>(), 1e-12);
  EXPECT_NEAR(means.mean_nu(), about["nu_0"].get<double>(), 1e-12);
  const auto distances = to_vector<double>(bias_tensor("lambda"));
  const auto gamma = sqrt_d_gamma(means, golden_frequencies(), distances);
  const auto planes = per_plane_bias(means, golden_frequencies(), distances);
  const auto expected_gamma = to_vector<double>(bias_tensor("sqrt_D_gamma"));
  const auto expected_planes = to_vector<double>(bias_tensor("per_plane"));
  const auto measured = to_vector<double>(bias_tensor("mean_score"));
  for (std::size_t n = 0; n < distances.size(); ++n) {
    EXPECT_NEAR(gamma[n], expected_gamma[n], 1e-11);
    EXPECT_NEAR(planes[n], expected_planes[n], 1e-11);
    EXPECT_NEAR(planes[n], measured[n], 1e-11);  // the mean score is exactly this
  }
}

TEST(IntrinsicBias, HalfLayoutIsAPermutation) {
  const at::Tensor q = bias_tensor("q"), k = bias_tensor("k");
  const auto to_half = [](const at::Tensor& x) {
    return at::cat({x.slice(1, 0, x.size(1), 2), x.slice(1, 1, x.size(1), 2)}, 1);
  };
  const auto half = plane_products(to_half(q), to_half(k), PlaneLayout::half);
  EXPECT_LT(relative_difference(half.a, bias_tensor("A")), 1e-14);
  EXPECT_LT(relative_difference(half.b, bias_tensor("B")), 1e-14);
}

// Texts of pairs with equal planes, and means that know nothing of the distance.
BiasSample synthetic(std::uint64_t seed, bool equal_planes) {
  const std::vector<double> frequencies = golden_frequencies();
  Random random(seed);
  BiasSample sample;
  sample.distances = {1, 3, 10, 40, 200};
  for (int t = 0; t < 40; ++t) {
    BiasText& text = sample.texts.emplace_back();
    for (const double distance : sample.distances) {
      PlaneMeans planes;
      const double mu = 1 + 0.2 * random.normal(), nu = 0.5 + 0.2 * random.normal();
      for (std::size_t d = 0; d < frequencies.size(); ++d) {
        planes.mu.push_back(equal_planes ? mu : mu + 0.3 * static_cast<double>(d));
        planes.nu.push_back(nu);
      }
      text.score.push_back(
          per_plane_bias(planes, frequencies, std::span<const double>(&distance, 1))[0]);
      text.planes.push_back(planes);
    }
  }
  return sample;
}

CheckResult judged(const BiasSample& sample, const BiasFormulas& formulas = {}) {
  const auto frequencies = golden_frequencies();
  return judge_heads({judge_bias(sample, frequencies, formulas)}, sample.distances,
                     static_cast<std::int64_t>(sample.texts.size()),
                     static_cast<std::int64_t>(frequencies.size()), 1e-10);
}

std::vector<double> without_root(const PlaneMeans& means, std::span<const double> frequencies,
                                 std::span<const double> distances) {
  auto values = sqrt_d_gamma(means, frequencies, distances);
  for (double& value : values) value /= std::sqrt(2.0 * static_cast<double>(frequencies.size()));
  return values;
}

PlaneMeans flipped(PlaneMeans means) {
  for (double& nu : means.nu) nu = -nu;
  return means;
}
std::vector<double> flipped_gamma(const PlaneMeans& means, std::span<const double> frequencies,
                                  std::span<const double> distances) {
  return sqrt_d_gamma(flipped(means), frequencies, distances);
}
std::vector<double> flipped_planes(const PlaneMeans& means, std::span<const double> frequencies,
                                   std::span<const double> distances) {
  return per_plane_bias(flipped(means), frequencies, distances);
}

TEST(IntrinsicBias, Verdicts) {
  const BiasSample equal = synthetic(1, true);
  const CheckResult right = judged(equal);
  EXPECT_EQ(right.verdict, "holds") << right.detail;
  EXPECT_EQ(judged(equal, {without_root, per_plane_bias}).verdict, "fails");
  EXPECT_EQ(judged(equal, {flipped_gamma, per_plane_bias}).verdict, "fails");
  EXPECT_EQ(judged(equal, {flipped_gamma, flipped_planes}).verdict, "fails");
  const CheckResult unequal = judged(synthetic(1, false));
  EXPECT_EQ(unequal.verdict, "premise_not_met") << unequal.detail;
  EXPECT_GT(unequal.value, unequal.bound);  // and Gamma is indeed off
}

TEST(IntrinsicBias, FalseAlarmsAreRare) {
  int held = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    held += judged(synthetic(seed, true)).verdict == std::string("holds");
  }
  EXPECT_GE(held, 97);  // each fails with 0.27 %
}

// One layer whose planes all compute the same: every premise holds.
ModelPointer equal_planes_model(bool turned_back) {
  auto config = testing::small_config("rope");
  config.layers = 1;
  const auto model = model::random_model(config, 5);
  const at::NoGradGuard no_gradients;
  model::Weights weights = model->decoder.weights();
  for (at::Tensor* w : {&weights.layers[0].wq, &weights.layers[0].wk}) {
    // Rows (head, half, plane): the same row for every plane of a half.
    const at::Tensor rows = w->view({2, 2, 4, -1});
    *w = rows.narrow(2, 0, 1).expand_as(rows).reshape_as(*w).contiguous();
  }
  std::shared_ptr<const model::Encoding> encoding = model->decoder.shared_encoding();
  if (turned_back) encoding = std::make_shared<testing::TurnedBack>(encoding, config);
  return std::make_shared<const model::Model>(
      model::Model{model->report, model->tokenizer, model::Decoder(config, encoding, weights)});
}

// Tokens that hardly differ: the means stand far above their noise, and every plane has its own.
ModelPointer unequal_planes_model() {
  auto config = testing::small_config("rope");
  config.layers = 1;
  const auto model = model::random_model(config, 5);
  const at::NoGradGuard no_gradients;
  model::Weights weights = model->decoder.weights();
  weights.embedding = weights.embedding + 3;
  return std::make_shared<const model::Model>(
      model::Model{model->report, model->tokenizer,
                   model::Decoder(config, model->decoder.shared_encoding(), weights)});
}

CheckResult run_on(const ModelPointer& model, std::int64_t layer = 0, std::int64_t count = 32) {
  const Texts texts = random_texts(count, 48, model->config().vocab_size, 21);
  protocol::NoProgress progress;
  CheckContext context;
  context.model = model;
  context.texts = &texts;
  context.pairs = 5000;
  context.layer = layer;
  context.progress = &progress;
  return run_check(rope_intrinsic_bias(), context);
}

TEST(IntrinsicBias, ModelVerdicts) {
  const CheckResult right = run_on(equal_planes_model(false));
  EXPECT_EQ(right.verdict, "holds") << right.detail;
  EXPECT_GT(right.samples, 3000);
  const CheckResult wrong = run_on(equal_planes_model(true));
  EXPECT_EQ(wrong.verdict, "fails") << wrong.detail;
  const CheckResult unequal = run_on(unequal_planes_model());
  EXPECT_EQ(unequal.verdict, "premise_not_met") << unequal.detail;
  EXPECT_EQ(run_on(testing::small_model("alibi")).verdict, "premise_not_met");
}

// A head that is not there is named before anything else that is missing.
TEST(IntrinsicBias, OfALayerThatIsNotThereIsRefused) {
  EXPECT_THROW(run_on(testing::small_model("rope"), 99), formats::Error);
  EXPECT_THROW(run_on(testing::small_model("rope"), 99, 1), formats::Error);
  EXPECT_THROW(run_on(testing::small_model("alibi"), 99), formats::Error);
}

TEST(IntrinsicBias, IsOfPlainScoresOfWholeRotationsAlone) {
  const auto refused = [](auto change, const std::string& why) {
    auto config = testing::small_config("rope");
    change(config);
    const CheckResult got = run_on(model::random_model(config, 3));
    EXPECT_EQ(got.verdict, "premise_not_met") << why;
    EXPECT_NE(got.detail.find(why), std::string::npos) << got.detail;
  };
  refused([](auto& c) { c.attention.window = 8, c.attention.local_layers = {0}; }, "window");
  refused([](auto& c) { c.attention.soft_cap = 20; }, "soft cap");
  refused([](auto& c) { c.attention.scale = 1; }, "scale");
  refused([](auto& c) { c.attention.scale_by_layer = true; }, "layer");
  refused([](auto& c) { c.attention.log_scale = 64; }, "token");
  refused([](auto& c) { c.encoding.options["partial_rotary_factor"] = 0.5; },
          "a part of each head");
  refused([](auto& c) { c = testing::small_config("xpos"); }, "decay");
  refused([](auto& c) { c = testing::small_config("ape_periodic"); }, "change of basis");
}

TEST(IntrinsicBias, CausalMeansAreExact) {
  const auto model = testing::small_model("rope");
  TextPass pass(model, ids_tensor(random_texts(1, 20, 32, 3).items[0].ids));
  const AttentionPointer attention = pass.layer(1);
  const auto means = causal_plane_means(*attention, PlaneLayout::half);
  const at::Tensor q = attention->q()[0][1].to(at::kDouble),
                   k = attention->k()[0][1].to(at::kDouble);
  at::Tensor sum = at::zeros({4}, at::kDouble);
  for (std::int64_t i = 0; i < 20; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      sum += plane_products(q[i].unsqueeze(0), k[j].unsqueeze(0), PlaneLayout::half).b[0];
    }
  }
  const auto expected = to_vector<double>(sum / 210.0);
  for (std::size_t d = 0; d < 4; ++d) EXPECT_NEAR(means[1].nu[d], expected[d], 1e-12);
}

}  // namespace
}  // namespace phasescope::analysis
