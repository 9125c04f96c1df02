// Head statistics of some layers: theirs are those of the whole, and nothing behind them runs.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "analysis/heads.h"
#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kDepth = 5;

testing::ModelPointer deep_model() {
  model::ModelConfig config = testing::small_config("rope");
  config.layers = kDepth;
  return model::random_model(config, 3);
}

// How far the reading of texts ever came.
class Furthest final : public protocol::Progress {
 public:
  void progress(double fraction, std::string_view text) override {
    if (text == "reading the text") furthest = std::max(furthest, fraction);
  }
  bool cancelled() const override { return false; }
  double furthest = 0;
};

HeadsOutput heads_of(const testing::ModelPointer& model, std::vector<std::int64_t> layers,
                     std::int64_t keep, Furthest& furthest, std::vector<std::string> metrics = {}) {
  const auto passes = testing::passes_for(model, 2, 24, keep);
  for (const auto& pass : passes) pass->watch(&furthest);
  return analyse_heads(
      passes, {.layers = std::move(layers), .metrics = std::move(metrics), .thumbnails = 8},
      furthest);
}

TEST(ChosenLayers, HaveTheStatisticsThatTheyHaveAmongAll) {
  const auto model = deep_model();
  for (const std::int64_t keep : {std::int64_t{0}, std::int64_t{1} << 30}) {
    Furthest of_all, of_some;
    const HeadsOutput all = heads_of(model, {}, keep, of_all);
    const HeadsOutput some = heads_of(model, {2, 0}, keep, of_some);
    // A layer counts when it has run; the one behind the last asks first whether anybody waits.
    EXPECT_DOUBLE_EQ(of_all.furthest, 1);
    // The repeated tokens, which are read last, are the last tenth.
    EXPECT_NEAR(of_some.furthest, 0.9 + 0.1 * 3 / kDepth, 1e-12);
    const auto heads = static_cast<std::size_t>(all.result.heads);
    ASSERT_EQ(some.result.rows.size(), 2 * heads);
    std::set<std::int64_t> layers;
    for (const protocol::HeadRow& row : some.result.rows) {
      layers.insert(row.layer);
      const auto& same = all.result.rows[static_cast<std::size_t>(row.layer) * heads +
                                         static_cast<std::size_t>(row.head)];
      ASSERT_EQ(row.values.size(), same.values.size());
      for (const auto& [key, value] : row.values) {
        const double expected = same.values.at(key).mean;
        EXPECT_TRUE(value.mean == expected || (std::isnan(value.mean) && std::isnan(expected)))
            << key;
      }
    }
    EXPECT_EQ(layers, (std::set<std::int64_t>{0, 2}));
    EXPECT_EQ(some.result.layers, kDepth);
    EXPECT_TRUE(std::isnan(some.result.sink_rate));
    EXPECT_TRUE(some.result.model_values.empty());
  }
}

TEST(ChosenLayers, AreRefusedWhereTheyAreNotThereOrNotEnough) {
  const auto refused = [&](std::vector<std::int64_t> layers, std::vector<std::string> metrics) {
    Furthest progress;
    try {
      heads_of(deep_model(), std::move(layers), 0, progress, std::move(metrics));
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_usage");
      return error.full_text();
    }
    return std::string();
  };
  EXPECT_NE(refused({5}, {}).find("there is no layer 5"), std::string::npos);
  EXPECT_NE(refused({1}, {"js_divergence"}).find("over all layers"), std::string::npos);
  EXPECT_NE(refused({1}, {"induction_loss"}).find("over all layers"), std::string::npos);
  EXPECT_NE(refused({1}, {"sink", "sink_rate"}).find("over all layers"), std::string::npos);
  EXPECT_EQ(refused({4, 4}, {"entropy"}), "");
}

// One layer's map needs none of those behind it where a pass is not kept.
TEST(ChosenLayers, AVisitEndsWithItsLastLayer) {
  const auto pass = testing::passes_for(deep_model(), 1, 24, 0)[0];
  Furthest furthest;
  pass->watch(&furthest);
  std::vector<std::int64_t> seen;
  const auto see = [&](const AttentionPointer& attention) { seen.push_back(attention->layer()); };
  pass->visit_layers_with_maps(see, nullptr, Stack::main, 1);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1}));
  EXPECT_DOUBLE_EQ(furthest.furthest, 2.0 / kDepth);
  seen.clear();
  pass->visit_layers_with_maps(see, nullptr, Stack::main, kDepth - 1);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kDepth));
}

}  // namespace
}  // namespace phasescope::analysis
