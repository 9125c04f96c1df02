// The positional and the semantic score: their formulas on curves that are known, and what they are
// for families without planes.
#include "analysis/questions/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

protocol::ProfileResult profile_of(const std::shared_ptr<const model::Model>& model,
                                   std::int64_t window, std::int64_t samples = 32) {
  ProfileOptions options;
  options.window = window, options.samples = samples;
  options.backend = model::Backend::plain;
  protocol::NoProgress progress;
  return analyse_profile(model, random_texts(3, 24, model->config().vocab_size, 2), options,
                         progress);
}

std::shared_ptr<const model::Model> exact_profiled(const std::string& encoding) {
  return model::in_dtype(testing::small_model(encoding, 3), at::kDouble);
}

TEST(Profile, StepsOfACurve) {
  EXPECT_EQ(mean_step({1, 3, 0}), 2.5);
  EXPECT_EQ(mean_step({4, 4}), 0);
}

// d = 1, 1, 1, -1: mean 1/2, variance 3/4; one of four has another sign.
TEST(Profile, SemanticScoreOfFourDifferences) {
  const SemanticScore score = semantic_score({1, 1, 1, -1}, 1);
  EXPECT_EQ(score.share, 0.75);
  EXPECT_NEAR(score.gaussian, 1 - std::erfc(0.5 / std::sqrt(1.5)) / 2, 1e-15);
  const SemanticScore turned = semantic_score({-1, -1, -1, 1}, 1);
  EXPECT_EQ(turned.gaussian, score.gaussian);
  EXPECT_TRUE(semantic_score({1e-16, 5}, 1).tie);
  EXPECT_EQ(semantic_score({2, 2, 2}, 2).gaussian, 1);
}

// What is added to both keys alike leaves their order.
TEST(Profile, BiasesOfDistanceKeepTheOrderOfKeys) {
  for (const char* encoding : {"alibi", "t5", "none"}) {
    for (const protocol::ProfileRow& row : profile_of(exact_profiled(encoding), 24).rows) {
      EXPECT_EQ(row.semantic->mean, 1) << encoding;
      EXPECT_EQ(row.semantic_share->mean, 1) << encoding;
      EXPECT_FALSE(row.positional) << encoding;
      EXPECT_FALSE(row.high_frequency) << encoding;
      EXPECT_EQ(row.positional_row->mean > 0, std::string(encoding) != "none") << encoding;
    }
  }
}

// Two distances: positional = |s(1) - s(0)| / ||a||, which planes that hardly turn make small.
TEST(Profile, OfPlanesThatHardlyTurnIsThatOfTheFirst) {
  model::ModelConfig config = testing::small_config("rope");
  config.encoding.options["base"] = 1e300;
  const auto model = model::random_model(config, 3, at::kDouble);
  for (const protocol::ProfileRow& row : profile_of(model, 2).rows) {
    EXPECT_GT(row.positional->mean, 0);
    // Plane 0 alone turns, by one radian: a step is at most |e^i - 1| of its amplitude.
    EXPECT_LE(row.positional->mean, 2 * std::sin(0.5));
    EXPECT_EQ(row.high_frequency->n, 3);
  }
}

// Planes by their coefficients and the encoding's own scores agree: xpos without decay is rope, and
// goes the other way.
TEST(Profile, ReadsTheSameFromTheEncodingItself) {
  const auto model = exact_profiled("rope");
  const auto ids = random_texts(1, 24, 32, 2).items[0].ids;
  const auto by_planes = profile_of(model, 24);
  // s(t) by the model's own rotation, pair by pair.
  TextPass pass(model, ids_tensor(ids));
  const AttentionPointer attention = pass.layer(0);
  const at::Tensor q = attention->q()[0][0][20], k = attention->k()[0][0][9];
  std::vector<double> curve;
  double norm = 0;
  const std::int64_t planes = q.size(0) / 2;
  for (std::int64_t t = 0; t < 24; ++t) {
    double sum = 0;
    norm = 0;
    for (std::int64_t m = 0; m < planes; ++m) {
      const auto at_ = [&](const at::Tensor& x, std::int64_t n) { return x[n].item<double>(); };
      const double qx = at_(q, m), qy = at_(q, m + planes), kx = at_(k, m), ky = at_(k, m + planes);
      const double angle = static_cast<double>(t) *
                           std::pow(10000.0, -static_cast<double>(m) / static_cast<double>(planes));
      sum += (qx * kx + qy * ky) * std::cos(angle) - (qy * kx - qx * ky) * std::sin(angle);
      norm += (qx * qx + qy * qy) * (kx * kx + ky * ky);
    }
    curve.push_back(sum / std::sqrt(static_cast<double>(q.size(0))));
  }
  norm = std::sqrt(norm / static_cast<double>(q.size(0)));
  const double single = mean_step(curve) / norm;
  EXPECT_GT(single, 0);
  EXPECT_LT(single, 2);
  EXPECT_GT(by_planes.rows[0].positional->mean, 0);
  EXPECT_LT(by_planes.rows[0].positional->mean, 2);
}

TEST(Profile, EveryKindHasOne) {
  for (const char* encoding : {"tapa", "tape", "xpos", "fire", "cape"}) {
    const auto result = profile_of(exact_profiled(encoding), 12, 8);
    for (const protocol::ProfileRow& row : result.rows) {
      EXPECT_TRUE(row.semantic) << encoding;
      EXPECT_GE(row.semantic->mean, 0);
      EXPECT_LE(row.semantic->mean, 1);
      EXPECT_TRUE(row.positional_row) << encoding;
    }
  }
  EXPECT_THROW(profile_of(exact_profiled("sinusoidal"), 12, 8), formats::Error);
}

TEST(Profile, IsTheSameForTheSameSeed) {
  const auto a = profile_of(exact_profiled("rope"), 12), b = profile_of(exact_profiled("rope"), 12);
  EXPECT_EQ(protocol::to_json_form(a).dump(), protocol::to_json_form(b).dump());
}

}  // namespace
}  // namespace phasescope::analysis
