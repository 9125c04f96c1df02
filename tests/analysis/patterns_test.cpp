#include "analysis/patterns.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "formats/error.h"
#include "golden_tape.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::Passes;
using testing::passes_for;
using testing::small_model;

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

}  // namespace
}  // namespace phasescope::analysis
