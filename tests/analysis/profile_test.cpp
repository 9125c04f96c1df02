// The positional and the semantic score: their formulas on curves that are known, and what they are
// for families without planes.
#include "analysis/questions/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <utility>

#include "analysis/questions/pair.h"
#include "analysis/tensors.h"
#include "formats/error.h"
#include "model/encodings/alibi.h"
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

// Mean |s(t+1) - s(t)|, as the paper has it.
double mean_step(const std::vector<double>& curve) {
  double sum = 0;
  for (std::size_t t = 0; t + 1 < curve.size(); ++t) sum += std::abs(curve[t + 1] - curve[t]);
  return sum / static_cast<double>(curve.size() - 1);
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
      EXPECT_NE(row.why.find("no plane"), std::string::npos) << encoding;
      EXPECT_EQ(row.positional_row->mean > 0, std::string(encoding) != "none") << encoding;
    }
  }
}

// s(t) of one query and key at t = 0 .. window - 1, plane by plane from q and k before the
// rotation, and the norm of its coefficients.
struct Curve {
  std::vector<double> scores;
  double norm = 0;
};
Curve curve_of(const model::LayerAttention& attention, std::int64_t query, std::int64_t key,
               double base, std::int64_t window) {
  const auto q = to_vector<double>(attention.q()[0][0][query]);
  const auto k = to_vector<double>(attention.k()[0][0][key]);
  const std::size_t planes = q.size() / 2;
  const double scale = 1 / std::sqrt(static_cast<double>(q.size()));
  Curve curve{std::vector<double>(static_cast<std::size_t>(window)), 0};
  for (std::size_t m = 0; m < planes; ++m) {
    const std::complex<double> a = scale * std::complex<double>(q[m], q[m + planes]) *
                                   std::conj(std::complex<double>(k[m], k[m + planes]));
    const double theta = std::pow(base, -static_cast<double>(m) / static_cast<double>(planes));
    for (std::size_t t = 0; t < curve.scores.size(); ++t) {
      curve.scores[t] += std::real(a * std::polar(1.0, static_cast<double>(t) * theta));
    }
    curve.norm += std::norm(a);
  }
  curve.norm = std::sqrt(curve.norm);
  return curve;
}

// One sample of a text of three tokens: one of three pairs, and the one triplet up to its order.
protocol::ProfileRow first_row(const std::shared_ptr<const model::Model>& model, const Texts& texts,
                               std::int64_t window) {
  ProfileOptions options;
  options.window = window, options.samples = 1;
  options.backend = model::Backend::plain;
  protocol::NoProgress progress;
  return analyse_profile(model, texts, options, progress).rows[0];
}

// Both bases; with 10^300 plane 0 alone turns, and of two distances only t = 0 and 1 count.
TEST(Profile, ScoresAreThoseOfTheirFormulas) {
  for (const double base : {1e4, 1e300}) {
    model::ModelConfig config = testing::small_config("rope");
    config.encoding.options["base"] = base;
    const auto model = model::random_model(config, 3, at::kDouble);
    for (const std::int64_t window : {std::int64_t{2}, std::int64_t{24}}) {
      const Texts triplet = random_texts(1, 3, config.vocab_size, 2);
      TextPass three(model, ids_tensor(triplet.items[0].ids));
      const Curve first = curve_of(*three.layer(0), 2, 0, base, window),
                  second = curve_of(*three.layer(0), 2, 1, base, window);
      std::vector<double> apart(first.scores.size());
      std::ranges::transform(first.scores, second.scores, apart.begin(), std::minus<>());
      const SemanticScore expected = semantic_score(apart, 1);
      const protocol::ProfileRow got = first_row(model, triplet, window);
      EXPECT_NEAR(got.semantic->mean, expected.gaussian, 1e-12);
      double off = 1;
      for (const auto& [query, key] : {std::pair{1, 0}, {2, 0}, {2, 1}}) {
        const Curve curve = curve_of(*three.layer(0), query, key, base, window);
        off = std::min(off, std::abs(got.positional->mean - mean_step(curve.scores) / curve.norm));
      }
      EXPECT_LE(off, 1e-12);
      EXPECT_EQ(got.semantic_share->mean, expected.share);
    }
  }
}

// A decay or a soft cap leaves the planes their amplitudes: the steps of the score that the
// encoding gives at each distance, over the norm of what q and k are before they are turned.
TEST(Profile, PlanesThatFadeOrAreCappedHaveAmplitudesToo) {
  model::ModelConfig capped = testing::small_config("rope");
  capped.attention.soft_cap = 0.5;
  for (const bool fades : {true, false}) {
    const model::ModelConfig config = fades ? testing::small_config("xpos") : capped;
    const auto model = model::random_model(config, 3, at::kDouble);
    const Texts triplet = random_texts(1, 3, config.vocab_size, 2);
    const std::int64_t window = 24;
    const protocol::ProfileRow got = first_row(model, triplet, window);
    ASSERT_TRUE(got.positional && got.high_frequency) << fades;
    TextPass three(model, ids_tensor(triplet.items[0].ids));
    double off = 1;
    for (const auto& [query, key] : {std::pair{1, 0}, {2, 0}, {2, 1}}) {
      const double norm = curve_of(*three.layer(0), query, key, 1e4, window).norm;
      PairOptions options;
      options.query = query, options.key = key;
      options.backend = model::Backend::plain;
      protocol::NoProgress progress;
      const auto pair = analyse_pair(model, triplet.items[0], options, progress);
      std::vector<double> scores;
      for (std::int64_t t = 0; t < window; ++t) {
        scores.push_back((*pair.curve)[static_cast<std::size_t>(t)].score);
      }
      off = std::min(off, std::abs(got.positional->mean - mean_step(scores) / norm));
    }
    EXPECT_LE(off, 1e-12) << fades;
    EXPECT_GT(got.positional->mean, 0) << fades;
  }
}

// A bias of - m lambda moves by m a step, whatever the pair: over the deviation of its row, read
// from all of the text's scores. Of two samples the mean over two rows of a text of many.
TEST(Profile, PositionalRowIsOverTheDeviationOfItsRow) {
  const auto model = exact_profiled("alibi");
  const Texts texts = random_texts(1, 300, 32, 4);
  TextPass pass(model, ids_tensor(texts.items[0].ids));
  const at::Tensor scores = pass.layer(1)->scores(pass.layer(1)->whole()).score[0][1];
  std::vector<double> ratios;
  for (std::int64_t row = 7; row < 300; ++row) {
    const double deviation = scores[row].slice(0, 0, row + 1).std(false).item<double>();
    ratios.push_back(model::alibi_slopes(2)[1] / deviation);
  }
  ProfileOptions options;
  options.window = 24, options.samples = 2;
  options.backend = model::Backend::plain;
  protocol::NoProgress progress;
  const double got =
      analyse_profile(model, texts, options, progress).rows.back().positional_row->mean;
  double off = 1;
  for (const double one : ratios) {
    for (const double other : ratios) off = std::min(off, std::abs(got - (one + other) / 2));
  }
  // Halves of two of 293 numbers of about 0.01 come within 1e-7 of any other number by chance.
  EXPECT_LE(off, 1e-12 * got);
}

// The deviation of two or three scores may be as good as 0, and a mean over rows that of one of
// them.
TEST(Profile, RowsOfFewScoresAreInvalid) {
  const auto rows_of = [](std::int64_t tokens) {
    ProfileOptions options;
    options.window = 8, options.samples = 32;
    options.backend = model::Backend::plain;
    protocol::NoProgress progress;
    return analyse_profile(exact_profiled("alibi"), random_texts(2, tokens, 32, 2), options,
                           progress)
        .rows;
  };
  const auto few = rows_of(7), enough = rows_of(16);
  ASSERT_FALSE(few.empty());
  ASSERT_EQ(enough.size(), few.size());
  for (const protocol::ProfileRow& row : few) {
    EXPECT_FALSE(row.positional_row);
    EXPECT_GT(row.invalid, 0);
    EXPECT_NE(row.why.find("eight scores"), std::string::npos) << row.why;
  }
  for (const protocol::ProfileRow& row : enough) EXPECT_TRUE(row.positional_row);
}

TEST(Profile, EveryKindHasOne) {
  for (const char* encoding : {"tapa", "tape", "xpos", "fire", "cape"}) {
    const auto result = profile_of(exact_profiled(encoding), 12, 8);
    ASSERT_FALSE(result.rows.empty()) << encoding;
    for (const protocol::ProfileRow& row : result.rows) {
      EXPECT_TRUE(row.semantic) << encoding;
      EXPECT_GE(row.semantic->mean, 0);
      EXPECT_LE(row.semantic->mean, 1);
      EXPECT_TRUE(row.positional_row) << encoding;
    }
  }
  EXPECT_THROW(profile_of(exact_profiled("sinusoidal"), 12, 8), formats::Error);
}

// Rows' scores by the kernel, and by plain operations: what is said of them has the scores' float32
// rounding, 2^-24 of the largest, which rows that vary by a thousandth of it would make 1e-4.
TEST(Profile, ReadsRowsByTheKernelAsByPlainOperations) {
  for (const char* encoding : {"rope", "alibi", "kerple_log", "tapa", "tape", "fire", "cape"}) {
    const auto model = testing::small_model(encoding, 3);
    const Texts texts = random_texts(2, 40, model->config().vocab_size, 2);
    const auto rows_by = [&](model::Backend backend) {
      ProfileOptions options;
      options.window = 12, options.samples = 16, options.backend = backend;
      protocol::NoProgress progress;
      return analyse_profile(model, texts, options, progress).rows;
    };
    const auto fused = rows_by(model::Backend::fused), plain = rows_by(model::Backend::plain);
    ASSERT_EQ(fused.size(), plain.size());
    for (std::size_t n = 0; n < plain.size(); ++n) {
      ASSERT_TRUE(plain[n].positional_row && fused[n].positional_row) << encoding;
      const double expected = plain[n].positional_row->mean;
      EXPECT_NEAR(fused[n].positional_row->mean, expected, 1e-4 * expected) << encoding << " " << n;
      EXPECT_EQ(fused[n].invalid, plain[n].invalid) << encoding;
    }
  }
}

TEST(Profile, IsTheSameForTheSameSeed) {
  const auto a = profile_of(exact_profiled("rope"), 12), b = profile_of(exact_profiled("rope"), 12);
  EXPECT_EQ(protocol::to_json_form(a).dump(), protocol::to_json_form(b).dump());
}

}  // namespace
}  // namespace phasescope::analysis
