#include "analysis/patterns.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/state_drift.h"
#include "formats/error.h"
#include "golden_tape.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::Passes;
using testing::passes_for;
using testing::small_model;
using testing::updated_tape;

TEST(Patterns, RopeProductsAreCosines) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  PatternsOptions options;
  options.positions = 32;
  const auto out = analyse_patterns(passes_for(model, 1, 32), options, progress);
  ASSERT_EQ(out.result.layers.size(), 1u);  // nothing updates the state
  ASSERT_EQ(out.result.frequencies.size(), 4u);
  for (std::size_t d = 0; d < 32; ++d) {
    double expected = 0;
    for (const double f : out.result.frequencies) expected += std::cos(static_cast<double>(d) * f);
    EXPECT_NEAR(out.result.layers[0].mean_by_distance[d], expected, 1e-4);
  }
  EXPECT_NEAR(out.result.layers[0].mean_abs_z, 1, 1e-6);
  EXPECT_EQ(out.result.layers[0].drift, 0);
}

// Layers with another rope or none: each rope once, and none of them is a state that has moved.
TEST(Patterns, RopesOfOtherLayersAreNoDrift) {
  model::ModelConfig config = testing::small_config("rope");
  config.layers = 4;
  config.layer_groups = {
      {.layers = {0}, .encoding = model::EncodingConfig{"none", {}}},
      {.layers = {2}, .encoding = model::EncodingConfig{"rope", {{"base", 100}}}}};
  protocol::NoProgress progress;
  const auto model = model::random_model(config, 3);
  const auto out = analyse_patterns(passes_for(model, 1, 32), {}, progress);
  ASSERT_EQ(out.result.layers.size(), 2u);
  for (const protocol::PatternsLayer& layer : out.result.layers) EXPECT_EQ(layer.drift, 0);
  EXPECT_NE(out.result.layers[0].mean_by_distance, out.result.layers[1].mean_by_distance);
}

// Eight blocks of equal weight whose ratios of squares are 0.01 b: Student's t with 7 degrees about
// their mean, of which the ends' roots are taken. 2.364624 is the table's t at 0.975.
TEST(Patterns, DriftHasAnIntervalByBlocksOfTheText) {
  const at::Tensor first = at::ones({1, 1, 64, 2, 3}, at::kDouble);
  const at::Tensor block = at::arange(64, at::kDouble).div(8, "floor") + 1;
  const at::Tensor moved = (0.01 * block).sqrt().reshape({1, 1, 64, 1, 1}).expand({1, 2, 64, 2, 3});
  const protocol::Interval drift = interval_of_drift(moved, first);
  const double half = 2.364624 * 0.01 * std::sqrt(6.0) / std::sqrt(8.0);
  constexpr double kDigitsOfT = 1e-6;
  EXPECT_NEAR(drift.mean, std::sqrt(0.045), 1e-12);
  ASSERT_TRUE(drift.low && drift.high);
  EXPECT_NEAR(*drift.low, std::sqrt(0.045 - half), kDigitsOfT);
  EXPECT_NEAR(*drift.high, std::sqrt(0.045 + half), kDigitsOfT);
  EXPECT_EQ(drift.n, 8);
  EXPECT_EQ(drift.unit, "blocks");
  // What has not moved drifts by 0 exactly; a shorter text has no interval.
  const protocol::Interval still = interval_of_drift(at::zeros_like(moved), first);
  EXPECT_EQ(still.mean, 0);
  ASSERT_TRUE(still.low && still.high);
  EXPECT_EQ(*still.low, 0);
  EXPECT_EQ(*still.high, 0);
  const protocol::Interval brief = interval_of_drift(moved.slice(2, 0, 63), first.slice(2, 0, 63));
  EXPECT_FALSE(brief.known());
  EXPECT_GT(brief.mean, 0.1);
}

// Through a model: the interval is about the number beside it, whose norms are summed in float32.
TEST(Patterns, TheIntervalOfDriftIsAboutIt) {
  protocol::NoProgress progress;
  const auto out = analyse_patterns(passes_for(updated_tape(), 1, 64), {}, progress);
  bool moved = false;
  for (const protocol::PatternsLayer& layer : out.result.layers) {
    ASSERT_TRUE(layer.drift_interval.known()) << layer.layer;
    EXPECT_NEAR(layer.drift_interval.mean, layer.drift, 1e-5 * layer.drift);
    EXPECT_LE(*layer.drift_interval.low, layer.drift_interval.mean);
    EXPECT_GE(*layer.drift_interval.high, layer.drift_interval.mean);
    moved = moved || layer.drift > 0;
  }
  EXPECT_TRUE(moved);
}

// However few positions the picture shows, the curve is of every pair at every distance.
TEST(Patterns, MeansByDistanceAreOfAllPairs) {
  protocol::NoProgress progress;
  PatternsOptions options;
  options.positions = 16;
  for (const char* key : {"rope", "tape"}) {
    const auto model = small_model(key);
    const Passes passes = passes_for(model, 1, 50);
    const auto out = analyse_patterns(passes, options, progress);
    std::vector<at::Tensor> states;
    passes[0]->visit_positions(
        [&states](std::int64_t, const model::PositionState& state) { states.push_back(state.z); });
    for (const protocol::PatternsLayer& layer : out.result.layers) {
      const at::Tensor z = states[static_cast<std::size_t>(layer.layer)];
      const at::Tensor products = position_products(z, at::arange(50, at::kLong)).mean(0);
      ASSERT_EQ(layer.mean_by_distance.size(), 50u);
      for (std::int64_t d = 0; d < 50; ++d) {
        EXPECT_NEAR(layer.mean_by_distance[static_cast<std::size_t>(d)],
                    products.diagonal(-d).mean().item<double>(), 1e-10)
            << key << ' ' << d;
      }
    }
  }
}

TEST(Patterns, ALayerThatNothingUpdatesIsSaidToBeThat) {
  protocol::NoProgress progress;
  PatternsOptions options;
  options.layers = {1};
  const auto rope = analyse_patterns(passes_for(small_model("rope"), 1, 20), options, progress);
  EXPECT_TRUE(rope.result.layers.empty());
  EXPECT_NE(rope.result.why_empty.find("nothing updates the state"), std::string::npos);
  EXPECT_NE(rope.result.why_empty.find("layer 0"), std::string::npos);
}

TEST(Patterns, RefusesLayersThatAreNotThereAndNoPositions) {
  protocol::NoProgress progress;
  const auto message = [&](const PatternsOptions& options) -> std::string {
    try {
      analyse_patterns(passes_for(small_model("tape"), 1, 20), options, progress);
    } catch (const formats::Error& error) {
      return error.full_text();
    }
    return "nothing";
  };
  for (const std::int64_t layer : {-1, 3, 99}) {  // two layers, and the start
    PatternsOptions options;
    options.layers = {0, layer};
    EXPECT_NE(message(options).find("is outside 0..2 (--layers)"), std::string::npos) << layer;
  }
  for (const std::int64_t positions : {0, -1}) {
    PatternsOptions options;
    options.positions = positions;
    EXPECT_NE(message(options).find("must be above 0"), std::string::npos) << positions;
  }
}

// Of tables, of terms that are measured, and of both: the curves of the layers asked for alone, and
// they are those that come without asking.
TEST(Patterns, CurvesAreThoseOfTheLayersAskedFor) {
  protocol::NoProgress progress;
  for (const char* key : {"alibi", "t5", "fire", "cape"}) {
    const Passes passes = passes_for(small_model(key), 2, 20);
    const auto all = analyse_patterns(passes, {}, progress);
    PatternsOptions options;
    options.layers = {1};
    const auto one = analyse_patterns(passes, options, progress);
    ASSERT_EQ(2 * one.result.bias.size(), all.result.bias.size()) << key;
    EXPECT_EQ(one.result.bias_distances, all.result.bias_distances) << key;
    for (const protocol::BiasCurve& curve : one.result.bias) {
      EXPECT_EQ(curve.layer, 1) << key;
      const auto same =
          std::ranges::find(all.result.bias, curve.label, &protocol::BiasCurve::label);
      ASSERT_NE(same, all.result.bias.end()) << key << ' ' << curve.label;
      EXPECT_EQ(curve.values, same->values) << key << ' ' << curve.label;
    }
  }
  PatternsOptions beyond;  // two layers, and no state after the last one
  beyond.layers = {2};
  EXPECT_THROW(analyse_patterns(passes_for(small_model("alibi"), 1, 20), beyond, progress),
               formats::Error);
}

TEST(Patterns, TapeHasAStateALayer) {
  protocol::NoProgress progress;
  const auto out = analyse_patterns(passes_for(small_model("tape"), 1, 20), {}, progress);
  EXPECT_EQ(out.result.layers.size(), 3u);
  EXPECT_EQ(out.result.layers[2].layer, 2);
  EXPECT_NE(protocol::find_tensor(out.tensors, "pe_dot.2"), nullptr);
}

TEST(Patterns, BiasCurves) {
  protocol::NoProgress progress;
  const auto alibi = analyse_patterns(passes_for(small_model("alibi"), 1, 20), {}, progress);
  ASSERT_EQ(alibi.result.bias.size(), 4u);
  // Slopes of two heads: 2^-4, 2^-8.
  EXPECT_NEAR(alibi.result.bias[0].values[16], -1, 1e-12);
  EXPECT_NEAR(alibi.result.bias[1].values[16], -1.0 / 16, 1e-12);
  EXPECT_EQ(alibi.result.bias_distances.size(), 20u);

  const auto model = small_model("cape");
  const Passes passes = passes_for(model, 3, 20);
  const auto cape = analyse_patterns(passes, {}, progress);
  ASSERT_EQ(cape.result.bias.size(), 8u);  // bases, then corrected ones
  double mean = 0;
  for (const auto& pass : passes) {
    const AttentionPointer attention = pass->layer(1);
    mean += attention->scores(attention->whole()).positional[0][0][19][19 - 7].item<double>() / 3;
  }
  const auto& corrected = cape.result.bias[4 + 2];  // L1H0
  EXPECT_EQ(corrected.layer, 1);
  EXPECT_NEAR(corrected.values[7], mean, 1e-4);

  // One table for all layers, which each of them shows.
  const auto t5 = analyse_patterns(passes_for(small_model("t5"), 1, 20), {}, progress);
  ASSERT_EQ(t5.result.bias.size(), 4u);
  EXPECT_EQ(t5.result.bias[0].values, t5.result.bias[2].values);

  const auto none = analyse_patterns(passes_for(small_model("none"), 1, 20), {}, progress);
  EXPECT_FALSE(none.result.why_empty.empty());
}

// 17.A10: GPT-2's and BERT's tables have the picture that is best known: P P^T, of every row of the
// table however short the text.
TEST(Patterns, ALearnedTableHasItsDotProducts) {
  protocol::NoProgress progress;
  const auto model = small_model("learned");
  const at::Tensor table = model->decoder.weights().encoding.at("table").to(at::kDouble);
  const std::int64_t rows = table.size(0);
  PatternsOptions options;
  options.positions = rows;
  const auto out = analyse_patterns(passes_for(model, 1, 5), options, progress);
  ASSERT_EQ(out.result.layers.size(), 1u) << out.result.why_empty;
  EXPECT_EQ(out.result.position_count, rows);
  const at::Tensor products = at::matmul(table, table.t());
  const auto* shown = protocol::find_tensor(out.tensors, "pe_dot.0");
  ASSERT_NE(shown, nullptr);
  ASSERT_EQ(shown->shape, (std::vector<std::int64_t>{rows, rows}));
  const auto values = shown->values<float>();
  const double largest = products.abs().max().item<double>();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < rows; ++j) {
      // Computed in float64 and rounded once to float32.
      EXPECT_NEAR(values[static_cast<std::size_t>(i * rows + j)], products[i][j].item<double>(),
                  1e-7 * largest);
    }
  }
  ASSERT_EQ(out.result.layers[0].mean_by_distance.size(), static_cast<std::size_t>(rows));
  for (std::int64_t d = 0; d < rows; ++d) {
    EXPECT_NEAR(out.result.layers[0].mean_by_distance[static_cast<std::size_t>(d)],
                products.diagonal(-d).mean().item<double>(), 1e-10);
  }
  EXPECT_NEAR(out.result.layers[0].mean_abs_z, table.norm(2, {1}).mean().item<double>(), 1e-12);
}

// sin a sin b + cos a cos b is cos (a - b): the closed form of sinusoids.
TEST(Patterns, SinusoidsProductsAreCosinesOfTheDistance) {
  protocol::NoProgress progress;
  const auto model = small_model("sinusoidal");
  const auto width = static_cast<double>(model->config().width);
  const auto out = analyse_patterns(passes_for(model, 1, 20), {}, progress);
  ASSERT_EQ(out.result.layers.size(), 1u) << out.result.why_empty;
  for (const std::size_t d : {0, 1, 7, 19}) {
    double expected = 0;
    for (double m = 0; m < width / 2; ++m) {
      expected += std::cos(static_cast<double>(d) * std::pow(10000.0, -2 * m / width));
    }
    // The model adds them in float32.
    EXPECT_NEAR(out.result.layers[0].mean_by_distance[d], expected, 1e-6 * width) << d;
  }
}

// The bucket of a distance as the paper's public code has it (Mesh TensorFlow, one-sided).
std::int64_t bucket_of(std::int64_t distance, std::int64_t buckets, double most) {
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return distance;
  const double place = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                       std::log(most / static_cast<double>(exact)) *
                       static_cast<double>(buckets - exact);
  return std::min(buckets - 1, exact + static_cast<std::int64_t>(place));
}

// 17.A6: bias curves go as far as asked, past 4096 and past the text.
TEST(Patterns, CurvesOfTablesGoAsFarAsAsked) {
  protocol::NoProgress progress;
  PatternsOptions options;
  options.distances = 10000;
  const auto model = small_model("t5");
  const auto t5 = analyse_patterns(passes_for(model, 1, 20), options, progress);
  const auto& options_of_t5 = model->encoding().options();
  const at::Tensor table = model->decoder.weights().encoding.at("table").to(at::kDouble);
  ASSERT_EQ(t5.result.bias_distances.size(), 10000u);
  for (const protocol::BiasCurve& curve : t5.result.bias) {
    ASSERT_EQ(curve.values.size(), 10000u);
    for (const std::int64_t d : {0, 3, 15, 60, 4095, 4096, 9999}) {
      const std::int64_t row = bucket_of(d, options_of_t5.at("buckets").get<std::int64_t>(),
                                         options_of_t5.at("max_distance").get<double>());
      EXPECT_EQ(curve.values[static_cast<std::size_t>(d)], table[row][curve.head].item<double>())
          << d;
    }
  }
  const auto alibi = analyse_patterns(passes_for(small_model("alibi"), 1, 20), options, progress);
  EXPECT_NEAR(alibi.result.bias[0].values.at(9999), -9999.0 / 16, 1e-9);
  EXPECT_NE(alibi.result.bias_note.find("the same of every query"), std::string::npos);
}

// More than a result can carry is thinned out and says so.
TEST(Patterns, DistancesThatAreLeftOutAreSaid) {
  protocol::NoProgress progress;
  PatternsOptions options;
  options.distances = protocol::kMostDistances;
  const auto out = analyse_patterns(passes_for(small_model("alibi"), 1, 20), options, progress);
  const auto& distances = out.result.bias_distances;
  ASSERT_LT(distances.size(), static_cast<std::size_t>(protocol::kMostDistances));
  EXPECT_NE(
      out.result.bias_note.find(std::to_string(distances.size()) + " of " +
                                std::to_string(protocol::kMostDistances) + " distances are shown"),
      std::string::npos)
      << out.result.bias_note;
  EXPECT_EQ(distances.back(), protocol::kMostDistances - 1);
  EXPECT_TRUE(std::ranges::is_sorted(distances, std::ranges::less_equal{}) &&
              std::ranges::adjacent_find(distances) == distances.end());
  for (const std::size_t n : {std::size_t{100}, distances.size() - 1}) {
    EXPECT_NEAR(out.result.bias[0].values[n], -static_cast<double>(distances[n]) / 16, 1e-9);
  }
}

TEST(Patterns, MeasuredCurvesSayTheirQuery) {
  protocol::NoProgress progress;
  PatternsOptions options;
  options.query = 7;
  Passes passes = passes_for(small_model("cape"), 2, 20);
  passes.push_back(passes_for(small_model("cape"), 1, 5)[0]);
  const auto out = analyse_patterns(passes, options, progress);
  EXPECT_EQ(out.result.bias_distances.size(), 8u);
  EXPECT_NE(out.result.bias_note.find("of query 7, mean over the 2 of 3 texts that reach it"),
            std::string::npos)
      << out.result.bias_note;
  options.query = 20;
  EXPECT_THROW(analyse_patterns(passes, options, progress), formats::Error);
  options = {};
  for (const std::int64_t distances : {std::int64_t{0}, protocol::kMostDistances + 1}) {
    options.distances = distances;
    EXPECT_THROW(analyse_patterns(passes, options, progress), formats::Error);
  }
}

// 17.A6: what the picture leaves out is counted.
TEST(Patterns, SampledPositionsAreOfAllPositions) {
  protocol::NoProgress progress;
  PatternsOptions options;
  options.positions = 10;
  const auto out = analyse_patterns(passes_for(small_model("rope"), 1, 40), options, progress);
  EXPECT_EQ(out.result.position_count, 40);
  EXPECT_EQ(out.result.positions, (std::vector<std::int64_t>{0, 4, 8, 12, 16, 20, 24, 28, 32, 36}));
  EXPECT_EQ(out.result.distances.size(), 40u);
}

}  // namespace
}  // namespace phasescope::analysis
