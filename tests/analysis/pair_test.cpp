// Pair: what ran, taken apart and put together again, and a head whose phasors are known.
#include "analysis/questions/pair.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/bias_rows.h"
#include "formats/error.h"
#include "model/checkpoints/constructed.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

Text some_text(std::int64_t vocabulary = 32, std::int64_t tokens = 24) {
  return random_texts(1, tokens, vocabulary, 9).items[0];
}

std::shared_ptr<const model::Model> exact_pair(const std::string& encoding) {
  return model::in_dtype(testing::small_model(encoding, 3), at::kDouble);
}

protocol::PairResult pair_of(const std::shared_ptr<const model::Model>& model, std::int64_t layer,
                             std::int64_t query, std::int64_t key) {
  PairOptions options;
  options.layer = layer, options.head = 1, options.query = query, options.key = key;
  options.backend = model::Backend::plain;
  protocol::NoProgress progress;
  return analyse_pair(model, some_text(), options, progress);
}

class PairOfKind : public ::testing::TestWithParam<std::string> {};

TEST_P(PairOfKind, IsThePairThatRan) {
  const auto model = exact_pair(GetParam());
  TextPass pass(model, ids_tensor(some_text().ids));
  for (const std::int64_t layer : {0, 1}) {
    const auto pair = pair_of(model, layer, 20, 9);
    const at::Tensor scores = pass.layer(layer)->scores({{1, 2}, {20, 21}, {9, 10}}).score;
    EXPECT_NEAR(pair.score, scores.item<double>(), 1e-12);
    EXPECT_NEAR(pair.weight, testing::weights_of(pass, layer)[1][20][9].item<double>(), 1e-12);
    EXPECT_EQ(pair.true_distance, 11);
    ASSERT_TRUE(pair.curve);
    EXPECT_NEAR((*pair.curve)[11].score, pair.score, 1e-12);
    EXPECT_NEAR((*pair.curve)[11].weight, pair.weight, 1e-12);
    // xpos decays out of float64's range before.
    EXPECT_GE(pair.curve->back().distance, GetParam() == "xpos" ? 100000 : 1000000);
    const std::string end = std::to_string(pair.curve->back().distance);
    const std::string said = "the curve ends at distance " + end + " of 1000000: ";
    EXPECT_EQ(pair.cut.starts_with(said), GetParam() == "xpos") << pair.cut;
    EXPECT_EQ(pair.cut.empty(), GetParam() != "xpos") << pair.cut;
    if (pair.phasors.empty()) continue;
    double sum = pair.tail;
    for (const auto& phasor : pair.phasors) sum += phasor[0];
    EXPECT_NEAR(sum, pair.score, 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Encodings, PairOfKind,
                         ::testing::Values("none", "rope", "xpos", "alibi", "t5", "fire", "tapa",
                                           "tape", "cape", "shaw", "transformer_xl"));

// A head's learned sink takes its share of a row.
TEST(Pair, WeighsBesideASink) {
  model::ModelConfig config = testing::small_config("rope");
  config.attention.sink_layers = {0};
  model::Weights weights = model::random_model(config, 3, at::kDouble)->decoder.weights();
  weights.layers[0].sinks = at::full({2}, 1.5, at::kDouble);
  const auto model = model::model_of(config, weights, "sinks");
  TextPass pass(model, ids_tensor(some_text().ids));
  const auto pair = pair_of(model, 0, 20, 9);
  const at::Tensor row = testing::weights_of(pass, 0)[1][20];
  EXPECT_LT(row.sum().item<double>(), 0.95);
  EXPECT_NEAR(pair.weight, row[9].item<double>(), 1e-12);
  EXPECT_NEAR((*pair.curve)[11].weight, pair.weight, 1e-12);
}

TEST(Pair, OfRopeHasAPhasorAPlane) {
  EXPECT_EQ(pair_of(exact_pair("rope"), 0, 20, 9).phasors.size(), 4u);
}

// Turned on from the distance that the pair has, the phasors give the score at every other one;
// with the sine's sign turned they do so at the pair's own distance alone.
TEST(Pair, PhasorsTurnIntoTheCurve) {
  const auto pair = pair_of(exact_pair("rope"), 1, 20, 9);
  const auto planes = static_cast<double>(pair.phasors.size());
  const auto turned = [&](std::int64_t distance, double sign) {
    double sum = pair.tail;
    for (std::size_t m = 0; m < pair.phasors.size(); ++m) {
      const double angle =
          static_cast<double>(distance - 11) * std::pow(10000.0, -static_cast<double>(m) / planes);
      sum += pair.phasors[m][0] * std::cos(angle) - sign * pair.phasors[m][1] * std::sin(angle);
    }
    return sum;
  };
  for (const std::size_t n : {std::size_t{0}, std::size_t{5}, std::size_t{11}, std::size_t{1000}}) {
    const protocol::PairPoint& point = (*pair.curve)[n];
    EXPECT_NEAR(turned(point.distance, 1), point.score, 1e-12) << n;
    EXPECT_EQ(std::abs(turned(point.distance, -1) - point.score) < 1e-9, point.distance == 11) << n;
  }
}

// What the content did to TAPE's states: nothing before the first layer, something after it.
TEST(Pair, OfTapeTellsTheStateFromARotation) {
  const auto first = pair_of(exact_pair("tape"), 0, 20, 9);
  for (const auto& state : first.state) {
    EXPECT_NEAR(state[0], 1, 1e-12);
    EXPECT_NEAR(state[1], 0, 1e-12);
  }
  double off = 0;
  for (const auto& state :
       pair_of(model::open_model("tape", {.dtype = at::kDouble}), 1, 20, 9).state) {
    off += std::abs(state[0] - 1) + std::abs(state[1]);
  }
  EXPECT_GT(off, 1e-3);
}

TEST(Pair, OfTapaIsOneHand) {
  const auto pair = pair_of(exact_pair("tapa"), 0, 20, 9);
  ASSERT_TRUE(pair.clock);
  EXPECT_GE(pair.clock->amplitude, 0);
  EXPECT_NEAR(pair.clock->amplitude * std::cos(pair.clock->phase), pair.score, 1e-12);
}

// Content + base + correction is the score at every distance, the base the table that the encoding
// has (kerple's by default, whatever the content), and no other family has such parts.
TEST(Pair, OfCapeHasABaseAndACorrection) {
  const auto model = exact_pair("cape");
  const auto pair = pair_of(model, 1, 20, 9), other = pair_of(model, 1, 20, 4);
  ASSERT_TRUE(pair.base && pair.correction);
  EXPECT_NEAR(pair.content + *pair.base + *pair.correction, pair.score, 1e-12);
  const at::Tensor table = table_of_layer(*model, 1, 1001);
  for (const std::size_t n : {std::size_t{0}, std::size_t{11}, std::size_t{1000}}) {
    const protocol::PairPoint& point = (*pair.curve)[n];
    EXPECT_NEAR(pair.content + *point.base + *point.correction, point.score, 1e-12) << n;
    const double entry = table[1][static_cast<std::int64_t>(n)].item<double>();
    EXPECT_NEAR(*point.base, entry, 1e-12) << n;
    EXPECT_NEAR(*(*other.curve)[n].base, entry, 1e-12) << n;
  }
  // The correction is another one for another key.
  EXPECT_GT(std::abs(*(*pair.curve)[11].correction - *(*other.curve)[11].correction), 1e-6);
  EXPECT_FALSE(pair_of(exact_pair("alibi"), 1, 20, 9).correction);
}

// The previous-token head: at distance 1 every phasor is real, and all are equal.
TEST(Pair, PhasorsOfThePreviousTokenHeadAreRealAndEqual) {
  const auto model = model::open_model("proof-previous", {.dtype = at::kDouble});
  PairOptions options;
  options.query = 20, options.key = 19;
  protocol::NoProgress progress;
  const auto pair = analyse_pair(model, some_text(256), options, progress);
  ASSERT_EQ(pair.phasors.size(), 128u);
  for (const auto& phasor : pair.phasors) {
    EXPECT_NEAR(phasor[0], 40.0 / 128, 1e-5);  // float32 weights
    EXPECT_NEAR(phasor[1], 0, 1e-6);
  }
  EXPECT_EQ(*pair.best_distance, 1);
  EXPECT_EQ(*pair.share_above, 0);
  EXPECT_NEAR(pair.score, 40, 1e-4);
}

// The curve is the closed form B mean cos((lambda - 1) theta), far past the trained length too.
TEST(Pair, CurveOfThePreviousTokenHead) {
  const auto model = model::open_model("proof-previous", {.dtype = at::kDouble});
  PairOptions options;
  options.query = 20, options.key = 3;
  protocol::NoProgress progress;
  const auto pair = analyse_pair(model, some_text(256), options, progress);
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{17}, std::size_t{1000}, pair.curve->size() - 1}) {
    const protocol::PairPoint& point = (*pair.curve)[n];
    double sum = 0;
    for (int m = 0; m < 128; ++m) {
      sum += std::cos(static_cast<double>(point.distance - 1) * std::pow(10000.0, -m / 128.0));
    }
    EXPECT_NEAR(point.score, 40 * sum / 128, 1e-4) << point.distance;
  }
}

// Scores 50 and 100 beside keys of score 0 have the weight 1 to its last digit, both.
TEST(Pair, TheBestDistanceIsToldWhereWeightsAreOne) {
  model::Constructed made = model::distance_head(7, 100);
  made.weights.encoding.at("table")[3][0] = 50;
  PairOptions options;
  options.query = 2, options.key = 0;
  protocol::NoProgress progress;
  const auto pair =
      analyse_pair(model::opened(made, "two", at::kDouble), some_text(256), options, progress);
  EXPECT_EQ((*pair.curve)[3].weight, (*pair.curve)[7].weight);
  EXPECT_EQ(*pair.best_distance, 7);
}

// The first row has one key, whose weight is 1 at every distance: none gives it more.
TEST(Pair, TheOnlyKeyOfARowHasItsWeightEverywhere) {
  const auto pair = pair_of(exact_pair("rope"), 1, 0, 0);
  EXPECT_EQ(pair.weight, 1);
  for (const protocol::PairPoint& point : *pair.curve) EXPECT_EQ(point.weight, 1);
  EXPECT_EQ(*pair.best_distance, 0);
  EXPECT_EQ(*pair.share_above, 0);
}

// Far away too a key that truly stands there has the score that the curve gives it: the ids around
// it are raised by 200 000, whose angles float64 knows to 2^-53 of them.
TEST(Pair, AKeyThatStandsFarAwayHasTheScoreOfTheCurve) {
  for (const char* encoding : {"rope", "alibi", "kerple_log", "tapa", "tape"}) {
    const auto model = exact_pair(encoding);
    const auto pair = pair_of(model, 0, 20, 9);
    Text text = some_text();
    for (std::int64_t n = 0; n < 24; ++n) text.position_ids.push_back(200000 + n);
    PairOptions options;
    options.head = 1, options.query = 20, options.key = 9;
    options.backend = model::Backend::plain;
    for (const std::int64_t distance : {5, 1000, 99674}) {  // of the curve's own
      text.position_ids[9] = 200020 - distance;
      protocol::NoProgress progress;
      const auto moved = analyse_pair(model, text, options, progress);
      EXPECT_EQ(moved.true_distance, distance);
      const auto at = std::ranges::find(*pair.curve, distance, &protocol::PairPoint::distance);
      ASSERT_NE(at, pair.curve->end());
      EXPECT_NEAR(moved.score, at->score, 1e-9) << encoding << ", " << distance;
    }
  }
}

TEST(Pair, OfARowOfOneKeyHasWeightOne) {
  const auto pair = pair_of(exact_pair("rope"), 1, 0, 0);
  EXPECT_EQ(pair.weight, 1);
}

TEST(Pair, SaysWhyThereIsNoOtherDistance) {
  const auto pair = pair_of(exact_pair("sinusoidal"), 0, 20, 9);
  EXPECT_FALSE(pair.curve);
  EXPECT_EQ(pair.why, "positions enter the embedding");
  EXPECT_GT(pair.weight, 0);
}

TEST(Pair, RefusesKeysAfterTheirQuery) {
  EXPECT_THROW(pair_of(exact_pair("rope"), 0, 5, 6), formats::Error);
  EXPECT_THROW(pair_of(exact_pair("rope"), 0, 24, 6), formats::Error);
}

TEST(Pair, DistancesOfTheCurveRise) {
  const auto distances = curve_distances(70000);
  EXPECT_EQ(distances[1024], 1024);
  EXPECT_EQ(distances.back(), 1000000);
  for (std::size_t n = 1; n < distances.size(); ++n) EXPECT_LT(distances[n - 1], distances[n]);
  EXPECT_EQ(std::ranges::count(distances, 70000), 1);
}

}  // namespace
}  // namespace phasescope::analysis
