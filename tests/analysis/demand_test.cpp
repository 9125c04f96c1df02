// Demand: what is exactly true of a gradient by a bias of distances, on every kind of score.
#include "analysis/questions/demand.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>

#include "analysis/questions/bias_fit.h"
#include "formats/error.h"
#include "model/attention/repairs.h"
#include "model/checkpoints/constructed.h"
#include "model/encodings/alibi.h"
#include "model/loss.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::period_of_eight;

using Ids = std::vector<std::int64_t>;
constexpr std::int64_t kTokens = 24;

Ids some_ids(std::int64_t tokens = kTokens) { return random_texts(1, tokens, 32, 9).items[0].ids; }

std::vector<std::int64_t> every_distance(std::int64_t tokens) {
  std::vector<std::int64_t> edges;
  for (std::int64_t n = 0; n < tokens; ++n) edges.push_back(n);
  return edges;
}

TextDemand demand_in(const model::Model& model, const Ids& ids, const DistanceBias& bias = {},
                     model::Backend backend = model::Backend::plain) {
  return demand_of(model, ids, bias, {backend, true, nullptr, nullptr});
}

double loss_in(const model::Model& model, const Ids& ids, const DistanceBias& bias) {
  return demand_of(model, ids, bias, {model::Backend::plain, false, nullptr, nullptr}).loss;
}

class DemandOfKind : public ::testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<const model::Model> model() const {
    return model::in_dtype(testing::small_model(GetParam(), 3), at::kDouble);
  }
};

// A constant changes no weight.
TEST_P(DemandOfKind, AddsUpToZero) {
  const at::Tensor demand = demand_in(*model(), some_ids()).demand;
  const double largest = demand.abs().max().item<double>();
  EXPECT_GT(largest, 1e-6);
  EXPECT_LE(demand.sum(-1).abs().max().item<double>(), 1e-12 * largest);
}

// Every entry of both layers moves: a central difference of step h is off by h^2 of the third
// derivative, and scores move by 1e-3 at most.
TEST_P(DemandOfKind, IsTheDerivativeOfTheLoss) {
  const auto made = model();
  const Ids ids = some_ids();
  const at::Tensor demand = demand_in(*made, ids).demand;
  const auto edges = every_distance(kTokens);
  for (const std::uint64_t seed : {1, 2}) {
    at::Tensor direction =
        at::randn(demand.sizes(), at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
    direction = direction / direction.norm();
    const auto difference = [&](double step) {
      return (loss_in(*made, ids, {direction * step, edges}) -
              loss_in(*made, ids, {direction * -step, edges})) /
             (2 * step);
    };
    // Of two steps, so that what a step is off by with its square falls out (Richardson): TAPA's
    // cosines bend so much that one step of 1e-3 alone is off by 2e-6 of the largest.
    const double measured = (4 * difference(5e-4) - difference(1e-3)) / 3;
    const double expected = -(demand * direction).sum().item<double>();
    // CAPE's correction has kinks, which any step crosses. Two losses of some hundred bits, each to
    // some 1e-14, are 2e-11 and less apart over a step of 1e-3.
    const at::Tensor size = demand.abs();
    const double scale = (GetParam() == "cape" ? size.sum() : size.max()).item<double>();
    EXPECT_NEAR(measured, expected, 1e-6 * scale + 1e-10);
  }
}

// Where scores are biased already.
TEST_P(DemandOfKind, IsTheDerivativeAwayFromZeroToo) {
  const auto made = model();
  const Ids ids = some_ids();
  const auto edges = distance_edges(kTokens);
  const std::vector<std::int64_t> shape{2, 2, static_cast<std::int64_t>(edges.size())};
  const at::Tensor at_ = at::linspace(-1, 1, 4 * shape[2], at::kDouble).view(shape);
  const at::Tensor demand = by_bucket(demand_in(*made, ids, {at_, edges}).demand, edges);
  at::Tensor step = at::zeros_like(at_);
  step[0][1][2] = 1e-6;  // cape has kinks, which a longer step crosses
  const double measured =
      (loss_in(*made, ids, {at_ + step, edges}) - loss_in(*made, ids, {at_ - step, edges})) / 2e-6;
  EXPECT_NEAR(measured, -demand[0][1][2].item<double>(), 1e-6 * demand.abs().sum().item<double>());
}

INSTANTIATE_TEST_SUITE_P(Encodings, DemandOfKind,
                         ::testing::Values("none", "rope", "alibi", "t5", "fire", "tapa", "tape",
                                           "cape", "ape_sequence"));

// TAPE's states are averaged with the same weights: without them layer 0 would be off by a tenth.
TEST(Demand, OfTapeReadsTheStateToo) {
  const auto made = model::in_dtype(testing::small_model("tape", 3), at::kDouble);
  const Ids ids = some_ids();
  const at::Tensor demand = demand_in(*made, ids).demand;
  const auto edges = every_distance(kTokens);
  for (const std::int64_t lambda : {1, 4}) {
    at::Tensor step = at::zeros_like(demand);
    step[0][0][lambda] = 1e-3;
    const double measured =
        (loss_in(*made, ids, {step, edges}) - loss_in(*made, ids, {-step, edges})) / 2e-3;
    EXPECT_NEAR(measured, -demand[0][0][lambda].item<double>(),
                1e-5 * demand[0].abs().max().item<double>());
  }
}

// t5's entries are a bias by distance: their gradient is what the distances of each bucket want.
TEST(Demand, OfT5IsTheGradientOfItsTable) {
  const auto made = model::in_dtype(testing::small_model("t5", 3), at::kDouble);
  const Ids ids = some_ids();
  model::Weights weights = made->decoder.weights();
  at::Tensor& table = weights.encoding.at("table");
  table = table.detach().clone().requires_grad_(true);
  const model::Decoder decoder(made->config(), made->decoder.shared_encoding(), weights);
  const at::AutoGradMode gradients(true);
  model::ForwardOptions options;
  options.backend = model::Backend::plain;
  (model::token_losses(decoder, ids_tensor(ids), options).sum() / std::numbers::ln2).backward();
  // One table for both layers; distances below 16 have a bucket each.
  const at::Tensor demand = demand_in(*made, ids).demand.sum(0);  // (H, N)
  const at::Tensor gradient = table.grad().t();                   // (H, buckets)
  const double off = (gradient.slice(1, 0, 16) + demand.slice(1, 0, 16)).abs().max().item<double>();
  EXPECT_LE(off, 1e-12 * gradient.abs().max().item<double>());
}

// ALiBi's bias is - f m lambda, and a head's factor f an option: d loss / df = sum D(lambda) m
// lambda. A step of 1e-4 moves scores by 2e-4 at most; of losses of some hundred bits it keeps
// 1e-9.
TEST(Demand, OfAlibiIsTheGradientOfItsSlopes) {
  const auto made = model::in_dtype(testing::small_model("alibi", 3), at::kDouble);
  const Ids ids = some_ids();
  const at::Tensor demand = demand_in(*made, ids).demand;
  const auto slopes = model::alibi_slopes(2);
  for (const int layer : {0, 1}) {
    const std::string name = "L" + std::to_string(layer) + "H0";
    const auto loss_at = [&](const char* factor) {
      const auto scaled =
          model::with_overrides(made, {{"encoding.head_bias_scales", name + ":" + factor}});
      return loss_in(*scaled, ids, {});
    };
    const double measured = (loss_at("1.0001") - loss_at("0.9999")) / 2e-4;
    const at::Tensor terms = demand[layer][0] * at::arange(kTokens, at::kDouble) * slopes[0];
    EXPECT_GT(std::abs(measured), 1e-6) << name;
    EXPECT_NEAR(measured, terms.sum().item<double>(),
                1e-6 * terms.abs().sum().item<double>() + 1e-9)
        << name;
  }
}

// The gradients of a bias's two parameters in layer 0, (H) each, and what the demand says they are:
// - sum over distances of D(lambda) db/dparameter, of b = -p ln(1 + a lambda).
struct BiasGradients {
  at::Tensor p, a, p_of_demand, a_of_demand;
};
BiasGradients bias_gradients(const std::string& encoding) {
  const auto made = model::in_dtype(testing::small_model(encoding, 3), at::kDouble);
  const Ids ids = some_ids();
  model::Weights weights = made->decoder.weights();
  auto& own = weights.layers[0].encoding;
  for (const char* name : {"p", "a"}) {
    own.at(name) = own.at(name).detach().clone().requires_grad_(true);
  }
  const model::Decoder decoder(made->config(), made->decoder.shared_encoding(), weights);
  const at::AutoGradMode gradients(true);
  model::ForwardOptions options;
  options.backend = model::Backend::plain;
  (model::token_losses(decoder, ids_tensor(ids), options).sum() / std::numbers::ln2).backward();
  const at::Tensor demand = demand_in(*made, ids).demand[0];
  const at::NoGradGuard no_gradients;
  const at::Tensor lambda = at::arange(kTokens, at::kDouble);
  const at::Tensor p = own.at("p").unsqueeze(1), a = own.at("a").unsqueeze(1);
  return {own.at("p").grad(), own.at("a").grad(), (demand * at::log1p(a * lambda)).sum(1),
          (demand * p * lambda / (1 + a * lambda)).sum(1)};
}

double apart(const at::Tensor& x, const at::Tensor& y) {
  return ((x - y).abs().max() / y.abs().max()).item<double>();
}

// A bias that is added as it is: exact. CAPE's correction reads the bias too, so that its base has
// another gradient than its distances' demand, or the bias would be added in the wrong place.
TEST(Demand, OfKerpleIsTheGradientOfItsParametersAndOfCapesBaseItIsNot) {
  const BiasGradients kerple = bias_gradients("kerple_log");
  EXPECT_LE(apart(kerple.p_of_demand, kerple.p), 1e-12);
  EXPECT_LE(apart(kerple.a_of_demand, kerple.a), 1e-12);
  const BiasGradients cape = bias_gradients("cape");
  EXPECT_GT(apart(cape.p_of_demand, cape.p), 1e-6);
}

// With the bundled model's slopes halved the loss falls as they grow, with them doubled as they
// shrink. The added bias is (1 - f) m lambda for slopes f m.
TEST(Demand, FindsSlopesThatAreTooFlatOrTooSteep) {
  const auto alibi = model::open_model("alibi", {.dtype = at::kDouble});
  constexpr std::int64_t kWindow = 128;
  const auto texts =
      bundled_texts(counted_by(*alibi->tokenizer, formats::Template::leave_out), kWindow).texts;
  const at::Tensor slopes = at::tensor(model::alibi_slopes(4), at::kDouble).view({1, 4, 1});
  const at::Tensor distances = at::arange(kWindow, at::kDouble);
  const at::Tensor line = (slopes * distances).expand({4, 4, kWindow});
  for (const double factor : {0.5, 2.0}) {
    double derivative = 0;  // of the loss by the factor
    for (const std::size_t n : {0, 30}) {
      Ids ids = alibi->tokenizer->encode(texts[n].text, formats::Template::leave_out).ids;
      ids.resize(kWindow);
      const at::Tensor demand =
          demand_in(*alibi, ids, {line * (1 - factor), every_distance(kWindow)}).demand;
      derivative += (demand * line).sum().item<double>();
    }
    EXPECT_EQ(derivative < 0, factor < 1) << factor << ": " << derivative;
  }
}

// A head whose bias is fixed still wants another one in a trained model: of ALiBi's steepest head
// the weight eight to eleven tokens away is too much. Seen on texts 0, 3, .., told of 1, 4, ..
TEST(Demand, OfAFixedBiasIsNotZeroAfterTraining) {
  const auto alibi = model::open_model("alibi");
  const std::int64_t trained = alibi->config().context;
  const auto all =
      bundled_texts(counted_by(*alibi->tokenizer, formats::Template::leave_out), trained).texts;
  std::vector<formats::NamedText> some;
  for (std::size_t n = 1; n < all.size(); n += 3) some.push_back(all[n]);
  DemandOptions options;
  options.layers = {0}, options.heads = {0};
  protocol::NoProgress progress;
  const auto result =
      analyse_demand(alibi, tokenised(some, *alibi->tokenizer, trained), options, progress).result;
  const auto bucket = std::ranges::find(result.edges, 8) - result.edges.begin();
  const protocol::Interval& wanted = result.rows[0].demand[static_cast<std::size_t>(bucket)];
  EXPECT_EQ(wanted.n, 23);
  EXPECT_LT(*wanted.high, 0) << wanted.mean;
}

// Period 8, but for a token of every so many that nothing predicts.
Ids mostly_of_period_eight(std::int64_t text, std::int64_t tokens, std::int64_t every) {
  Ids ids;
  for (std::int64_t n = 0; n < tokens; ++n) {
    const bool other = n > 0 && n % every == text % every;
    ids.push_back(other ? 200 + (n + text) % 7 : 10 + text + (n % 8) * 23);
  }
  return ids;
}

// Where f is least between low and high, by golden section.
double least_of(double low, double high, const std::function<double(double)>& f) {
  const double part = (std::sqrt(5.0) - 1) / 2;
  double a = high - part * (high - low), b = low + part * (high - low), at_a = f(a), at_b = f(b);
  for (int step = 0; step < 32; ++step) {
    if (at_a < at_b) {
      high = b, b = a, at_b = at_a, a = high - part * (high - low), at_a = f(a);
    } else {
      low = a, a = b, at_a = at_b, b = low + part * (high - low), at_b = f(b);
    }
  }
  return (low + high) / 2;
}

// A bias that was learned, the score at distance 7 of a copying head, has no demand left on the
// texts that it was learned on, all together, though each of them wants another one; at another
// length, or on other texts, it has some. It is learned by its loss alone.
TEST(Demand, OfALearnedBiasIsZeroOnWhatItWasLearnedOnAlone) {
  const auto model = model::opened(model::copying_head(0, 0.5), "learns", at::kDouble);
  const auto biased = [](std::int64_t tokens, double score) {
    DistanceBias bias{at::zeros({1, 2, tokens}, at::kDouble), every_distance(tokens)};
    bias.table[0][0][7] = score;
    return bias;
  };
  constexpr std::int64_t kLearned = 48;
  std::vector<Ids> texts;
  for (std::int64_t t = 0; t < 4; ++t) {
    texts.push_back(mostly_of_period_eight(t, kLearned, 5 + t % 3));
  }
  const double score = least_of(0, 10, [&](double at) {
    double loss = 0;
    for (const Ids& ids : texts) loss += loss_in(*model, ids, biased(kLearned, at));
    return loss;
  });
  EXPECT_GT(score, 1);
  EXPECT_LT(score, 9);
  const auto wanted = [&](const Ids& ids) {
    const auto tokens = static_cast<std::int64_t>(ids.size());
    return demand_in(*model, ids, biased(tokens, score)).demand[0][0][7].item<double>();
  };
  double sum = 0, largest = 0;
  for (const Ids& ids : texts) {
    sum += wanted(ids), largest = std::max(largest, std::abs(wanted(ids)));
    EXPECT_GT(std::abs(wanted(ids)), 0.1);
  }
  // The place of the least loss is known to 10 * 0.618^32 = 2e-6.
  EXPECT_LE(std::abs(sum), 1e-4 * largest);
  for (std::int64_t t = 0; t < 4; ++t) {
    EXPECT_GT(wanted(mostly_of_period_eight(t, 2 * kLearned, 5 + t % 3)), 1) << t;
  }
  EXPECT_GT(wanted(mostly_of_period_eight(0, kLearned, 1000)), 1);
}

// What no output reads has no demand.
TEST(Demand, OfAHeadThatWritesNothingIsZero) {
  const auto made = model::in_dtype(testing::small_model("rope", 3), at::kDouble);
  model::Weights weights = made->decoder.weights();
  at::Tensor& output = weights.layers[1].wo;
  output = output.clone();
  output.narrow(1, made->config().head_dim, made->config().head_dim).zero_();
  const auto mute = model::model_of(made->config(), weights, "mute");
  const at::Tensor demand = demand_in(*mute, some_ids()).demand;
  EXPECT_EQ(demand[1][1].abs().max().item<double>(), 0);
  EXPECT_GT(demand[1][0].abs().max().item<double>(), 0);
}

// A cap bends scores before the bias is added, which finite differences see: what is added behind
// it as a constant changes no weight, where before it it would.
TEST(Demand, IsMeasuredBehindASoftCap) {
  model::ModelConfig config = testing::small_config("alibi");
  config.attention.soft_cap = 0.5;
  const auto made = model::random_model(config, 4, at::kDouble);
  const Ids ids = some_ids();
  const at::Tensor demand = demand_in(*made, ids).demand;
  at::Tensor step = at::zeros_like(demand);
  step[0][1][3] = 1e-3;
  const auto edges = every_distance(kTokens);
  const double measured =
      (loss_in(*made, ids, {step, edges}) - loss_in(*made, ids, {-step, edges})) / 2e-3;
  EXPECT_NEAR(measured, -demand[0][1][3].item<double>(),
              1e-5 * demand[0].abs().max().item<double>());
  EXPECT_LE(demand.sum(-1).abs().max().item<double>(), 1e-12 * demand.abs().max().item<double>());
}

// float32 arithmetic over 24 keys and two layers keeps some five digits.
TEST(Demand, FusedEqualsFloat64) {
  for (const char* kind :
       {"none", "alibi", "rope", "fire", "tapa", "tape", "cape", "ape_sequence"}) {
    const auto made = testing::small_model(kind, 3);
    const at::Tensor exact = demand_in(*model::in_dtype(made, at::kDouble), some_ids()).demand;
    const at::Tensor fused = demand_in(*made, some_ids(), {}, model::Backend::fused).demand;
    EXPECT_LE((fused - exact).abs().max().item<double>(), 1e-3 * exact.abs().max().item<double>())
        << kind;
  }
}

// A long text's layers run again for their gradients; here those of a short one. Sums of gradients
// may be taken in another order.
TEST(Demand, LayersThatRunAgainWantTheSame) {
  for (const char* kind : {"rope", "alibi", "fire", "tapa", "tape", "cape"}) {
    const auto made = model::in_dtype(testing::small_model(kind, 3), at::kDouble);
    const auto edges = every_distance(kTokens);
    const DistanceBias bias{at::linspace(-1, 1, 4 * kTokens, at::kDouble).view({2, 2, kTokens}),
                            edges};
    const TextDemand kept = demand_in(*made, some_ids(), bias);
    DemandPass pass{model::Backend::plain};
    pass.kept_tokens = 0;
    const TextDemand again = demand_of(*made, some_ids(), bias, pass);
    EXPECT_EQ(again.loss, kept.loss) << kind;
    EXPECT_LE((again.demand - kept.demand).abs().max().item<double>(),
              1e-13 * kept.demand.abs().max().item<double>())
        << kind;
  }
}

// Told of each of two layers, forward and where its gradients have come: a text that is stopped in
// its backward pass ends there.
TEST(Demand, StopsWithinATextsBackwardPass) {
  class Stopping final : public protocol::Progress {
   public:
    void progress(double fraction, std::string_view) override { told.push_back(fraction); }
    bool cancelled() const override { return told.size() >= most; }
    std::vector<double> told;
    std::size_t most = 100;
  } progress;
  DemandPass pass{model::Backend::fused, true, nullptr, &progress};
  pass.kept_tokens = 0;
  const auto made = testing::small_model("rope", 3);
  demand_of(*made, some_ids(), {}, pass);
  const std::vector<double> expected{0.15, 0.3, 0.3, 0.65};
  ASSERT_EQ(progress.told.size(), expected.size());
  for (std::size_t n = 0; n < expected.size(); ++n) {
    EXPECT_NEAR(progress.told[n], expected[n], 1e-15) << n;  // a rounding
  }
  progress.told.clear(), progress.most = 3;
  EXPECT_THROW(demand_of(*made, some_ids(), {}, pass), protocol::Cancelled);
  EXPECT_EQ(progress.told.size(), 3u);
}

TEST(Demand, OfCopySevenIsHighestAtSeven) {
  const auto model = model::open_model("proof-copy7", {.dtype = at::kDouble});
  const Ids ids = period_of_eight(1, 96).items[0].ids;
  const at::Tensor demand = demand_in(*model, ids).demand[0];
  EXPECT_EQ(demand[0].argmax().item<std::int64_t>(), 7);
  EXPECT_GT(demand[0][7].item<double>(), 0);
  EXPECT_EQ(demand[1].abs().max().item<double>(), 0);
}

TEST(Demand, ResultSharesOutTheSums) {
  const auto model = model::open_model("proof-copy7");
  protocol::NoProgress progress;
  const Texts texts = period_of_eight(3, 64);
  const auto out = analyse_demand(model, texts, {}, progress);
  ASSERT_EQ(out.result.rows.size(), 2u);
  EXPECT_EQ(out.result.edges, distance_edges(64));
  double sum = 0, largest = 0;
  for (const protocol::Interval& one : out.result.rows[0].demand) {
    sum += one.mean, largest = std::max(largest, one.mean);
    EXPECT_EQ(one.n, 3);
  }
  // The kernel's gradients are float32: of each row they add up to its rounding, a hundredth of
  // which is left of all rows beside the largest sum.
  EXPECT_NEAR(sum, 0, 1e-5 * largest);
  EXPECT_EQ(out.result.rows[0].demand[5].mean, largest);  // [6, 8)
  // No distance lies beyond the trained 256 tokens, whatever the text.
  EXPECT_EQ(out.result.share_beyond_trained.mean, 0);
  EXPECT_EQ(*out.result.share_beyond_trained.high, 0);
  EXPECT_EQ(out.result.share_beyond_trained.method, "constant");
  EXPECT_FALSE(out.result.fit);
}

// Of three texts: the share of the sum, and Wilson's interval with the standard error of the three
// shares of two texts, by hand.
TEST(Demand, ShareBeyondTheTrainedLengthHasItsInterval) {
  model::ModelConfig config = testing::small_config("rope");
  config.context = 10;
  const auto model = model::random_model(config, 3, at::kDouble);
  protocol::NoProgress progress;
  const Texts texts = random_texts(3, 24, 32, 5);
  DemandOptions options;
  options.backend = model::Backend::plain;
  const protocol::Interval share =
      analyse_demand(model, texts, options, progress).result.share_beyond_trained;
  std::vector<at::Tensor> demands;
  for (const Text& text : texts.items) demands.push_back(demand_in(*model, text.ids).demand);
  const auto share_of = [](const at::Tensor& sum) {
    const at::Tensor by_distance = sum.abs().sum(at::IntArrayRef{0, 1});
    return (by_distance.slice(0, 10).sum() / by_distance.sum()).item<double>();
  };
  const double m = share_of(demands[0] + demands[1] + demands[2]);
  const double without[] = {share_of(demands[1] + demands[2]), share_of(demands[0] + demands[2]),
                            share_of(demands[0] + demands[1])};
  const double mean = (without[0] + without[1] + without[2]) / 3;
  double square = 0;
  for (const double one : without) square += (one - mean) * (one - mean);
  const double error = std::sqrt(2.0 / 3 * square), samples = m * (1 - m) / (error * error);
  constexpr double z = 4.302653;  // Student's t of 2 degrees (tables)
  const double centre = (m + z * z / (2 * samples)) / (1 + z * z / samples);
  const double half = z / (1 + z * z / samples) *
                      std::sqrt(m * (1 - m) / samples + z * z / (4 * samples * samples));
  EXPECT_NEAR(share.mean, m, 1e-9);
  EXPECT_NEAR(*share.low, centre - half, 1e-6);
  EXPECT_NEAR(*share.high, centre + half, 1e-6);
  EXPECT_EQ(share.n, 3);
  EXPECT_EQ(share.method, "Wilson");
}

TEST(Demand, BucketsHaveTheEdgesOfPowersAndHalves) {
  EXPECT_EQ(distance_edges(50),
            (std::vector<std::int64_t>{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48}));
  EXPECT_EQ(distance_edges(2), (std::vector<std::int64_t>{0, 1}));
}

// A copy of 7 whose score is too low to be read: raising the bucket of 6 and 7 is what helps.
TEST(DemandFit, RaisesTheBucketThatIsWanted) {
  const auto model = model::opened(model::copying_head(2, 0.5), "weak", at::kFloat);
  protocol::NoProgress progress;
  model::AllRan kernels;
  FitOptions options;
  options.steps = 4;
  const auto edges = distance_edges(64);
  const FittedBias fitted =
      fit_bias(*model, period_of_eight(12, 64), edges, options, kernels, progress);
  EXPECT_TRUE(fitted.report.helps) << fitted.report.why;
  EXPECT_LT(*fitted.report.change.high, 0);
  EXPECT_EQ(fitted.bias.table.select(2, 0).abs().max().item<double>(), 0);
  EXPECT_EQ(fitted.bias.table[0][0].argmax().item<std::int64_t>(), 5);  // [6, 8)
  EXPECT_EQ(fitted.report.before.n, 6);
  // No window reaches into these texts, and what the fit does is what a window leaves undone.
  for (const protocol::DemandWindow& one : fitted.report.windows) {
    EXPECT_NEAR(one.change.mean, 0, 1e-6) << one.window;  // float32 losses
    EXPECT_NEAR(one.over_fit.mean, -fitted.report.change.mean, 1e-6) << one.window;
    EXPECT_GT(*one.over_fit.low, 0) << one.window;
  }
  EXPECT_EQ(fitted.report.windows.size(), 2u);
  // What is reported is what the bias does.
  double change = 0, rows = 0;
  const Texts texts = period_of_eight(12, 64);
  for (const std::size_t n : {2, 3, 6, 7, 10, 11}) {
    const DemandPass plain{model::Backend::plain, false, nullptr, nullptr};
    change += demand_of(*model, texts.items[n].ids, fitted.bias, plain).loss -
              demand_of(*model, texts.items[n].ids, {}, plain).loss;
    rows += 63;
  }
  EXPECT_NEAR(change / rows, fitted.report.change.mean, 1e-4);  // float32 losses
}

TEST(DemandFit, RefusesFewTexts) {
  const auto model = model::open_model("proof-copy7");
  protocol::NoProgress progress;
  DemandOptions options;
  options.fit = true;
  EXPECT_THROW(analyse_demand(model, period_of_eight(5, 20), options, progress), formats::Error);
}

}  // namespace
}  // namespace phasescope::analysis
