// Models in which a layer has a state in place of maps, or fewer heads than others.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "analysis/heads.h"
#include "analysis/metrics/registry.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/pair.h"
#include "analysis/questions/profile.h"
#include "analysis/questions/xray.h"
#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kLayers = 3, kHeads = 3;

// Layer 0 has a state, layer 1 three heads, layer 2 two.
testing::ModelPointer uneven_model() {
  model::ModelConfig config = testing::small_config("rope");
  config.layers = kLayers, config.heads = config.kv_heads = kHeads;
  config.linear = {.layers = {0}, .key_heads = 1, .value_heads = 2, .key_dim = 4, .value_dim = 4};
  config.layer_groups = {{.layers = {2}, .heads = 2, .kv_heads = 2}};
  return model::random_model(config, 3);
}

bool is_there(std::int64_t layer, std::int64_t head) {
  return layer == 1 || (layer == 2 && head < 2);
}

TEST(MissingHeads, ALayersMapsAreItsOwn) {
  for (const std::int64_t keep : {std::int64_t{0}, std::int64_t{1} << 30}) {
    const auto pass = testing::passes_for(uneven_model(), 1, 24, keep)[0];
    EXPECT_EQ(pass->layer(1)->layer(), 1);
    EXPECT_EQ(pass->layer(1)->heads(), 3);
    EXPECT_EQ(pass->layer(2)->layer(), 2);
    EXPECT_EQ(pass->layer(2)->heads(), 2);
    try {
      pass->layer(0);
      ADD_FAILURE() << "a layer with a state has no maps";
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_usage");
      EXPECT_NE(error.full_text().find("the first layer that has some is 1"), std::string::npos);
    }
  }
}

TEST(MissingHeads, ReadersOfAllHeadsRefuse) {
  const auto pass = testing::passes_for(uneven_model(), 1)[0];
  try {
    pass->visit_layers([](const AttentionPointer&) { ADD_FAILURE() << "was read"; });
    ADD_FAILURE() << "was not refused";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.code(), "not_applicable");
    EXPECT_NE(error.full_text().find("1 of its 3 layers"), std::string::npos);
  }
}

// What reads heads by their places in all layers says so, and does not read what is not there.
TEST(MissingHeads, QuestionsOfAllHeadsRefuse) {
  protocol::NoProgress nobody;
  const auto model = uneven_model();
  const Texts texts = random_texts(1, 24, 32, 9);
  const auto refused = [&](const char* what, const std::function<void()>& ask) {
    try {
      ask();
      ADD_FAILURE() << what << " was not refused";
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "not_applicable") << what;
      EXPECT_NE(error.full_text().find("1 of its 3 layers"), std::string::npos) << what;
    }
  };
  refused("profile", [&] { analyse_profile(model, texts, {}, nobody); });
  refused("demand", [&] { analyse_demand(model, texts, {}, nobody); });
  refused("xray", [&] { analyse_xray(model, texts, {}, nobody); });
}

// A reading's settings of all heads are of those that there are; others are refused by name.
TEST(MissingHeads, SettingsOfHeadsAreOfThoseThatThereAre) {
  model::ModelConfig config = uneven_model()->config();
  config.encoding.options["head_ablations"] = "all:zero";
  const auto model = model::random_model(config, 3);
  const auto pass = testing::passes_for(model, 1, 24)[0];
  EXPECT_TRUE(pass->losses().isfinite().all().item<bool>());
  for (const char* words : {"L2H2:zero", "L0:zero", "L0H0:zero"}) {
    config.encoding.options["head_ablations"] = words;
    EXPECT_THROW(model::random_model(config, 3), formats::Error) << words;
  }
}

TEST(MissingHeads, APairOfALayerWithoutMapsIsRefused) {
  protocol::NoProgress nobody;
  PairOptions options;
  options.layer = 0, options.head = 0;
  const Text text = random_texts(1, 24, 32, 9).items[0];
  EXPECT_THROW(analyse_pair(uneven_model(), text, options, nobody), formats::Error);
  options.layer = 2, options.head = 2;  // which has two heads
  EXPECT_THROW(analyse_pair(uneven_model(), text, options, nobody), formats::Error);
}

TEST(MissingHeads, StatisticsStandAtTheirHeads) {
  const auto passes = testing::passes_for(uneven_model(), 1);
  HeadsOptions options;
  options.thumbnails = 6;
  protocol::NoProgress nobody;
  const HeadsOutput out = analyse_heads(passes, options, nobody);
  const auto& rows = out.result.rows;
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kLayers * kHeads));
  EXPECT_NE(out.result.provenance.note.find("no maps"), std::string::npos);
  const auto pictures = out.tensors.at(0).values<float>();
  ASSERT_EQ(pictures.size(), static_cast<std::size_t>(kLayers * kHeads * 36));
  std::int64_t sinks = 0;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    std::vector<HeadReading> readings;
    if (layer > 0) readings = read_heads(*passes[0]->layer(layer), head_probes({0, 1, 2}));
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const std::int64_t place = layer * kHeads + head;
      const protocol::HeadRow& row = rows[static_cast<std::size_t>(place)];
      EXPECT_EQ(row.layer, layer);
      EXPECT_EQ(row.head, head);
      for (const HeadMetric& metric : select_metrics({})) {
        if (metric.source != MetricSource::text || metric.sinks_alone) continue;
        const double value = row.values.at(metric.info.key).mean;
        if (!is_there(layer, head)) {
          EXPECT_TRUE(std::isnan(value)) << metric.info.key;
          continue;
        }
        const double own = metric.value({&readings[static_cast<std::size_t>(head)], nullptr, 0});
        EXPECT_TRUE(value == own || (std::isnan(value) && std::isnan(own))) << metric.info.key;
        if (metric.info.key == "sink" && own > 0.3) ++sinks;
      }
      const bool seen =
          std::any_of(pictures.begin() + place * 36, pictures.begin() + place * 36 + 36,
                      [](float cell) { return std::isfinite(cell); });
      EXPECT_EQ(seen, is_there(layer, head));
    }
  }
  EXPECT_DOUBLE_EQ(out.result.sink_rate, static_cast<double>(sinks) / 5);
}

}  // namespace
}  // namespace phasescope::analysis
