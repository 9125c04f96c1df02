// Models in which a layer has a state in place of maps, or fewer heads than others.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "analysis/compare.h"
#include "analysis/distance.h"
#include "analysis/divergence.h"
#include "analysis/heads.h"
#include "analysis/metrics/registry.h"
#include "analysis/patterns.h"
#include "analysis/questions/acuity.h"
#include "analysis/questions/addressing.h"
#include "analysis/questions/demand.h"
#include "analysis/questions/pair.h"
#include "analysis/questions/profile.h"
#include "analysis/questions/xray.h"
#include "analysis/shift.h"
#include "analysis/theory/check.h"
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

// Layer 0 has a state and leaves what it reads as it is: the model is the one of its two other
// layers, whose answers every question must give for layers 1 and 2.
struct WithALayerBefore {
  testing::ModelPointer more, less;

  explicit WithALayerBefore(const std::string& encoding = "rope", std::uint64_t seed = 3) {
    model::ModelConfig config = testing::small_config(encoding);
    config.layers = 3, config.context = 8;
    config.linear = {.layers = {0}, .key_heads = 1, .value_heads = 2, .key_dim = 4, .value_dim = 4};
    model::Weights weights = model::random_model(config, seed)->decoder.weights();
    for (at::Tensor* out : {&weights.layers[0].linear_out, &weights.layers[0].down}) {
      *out = at::zeros_like(*out);
    }
    model::Weights others = weights;
    others.layers.erase(others.layers.begin());
    more = model::model_of(config, std::move(weights), "made");
    config.layers = 2, config.linear = {};
    less = model::model_of(config, std::move(others), "made");
  }
};

// The rows as they would be of a model with `before` layers less.
template <class Row>
nlohmann::json rows_of(std::vector<Row> rows, std::int64_t before) {
  for (Row& row : rows) row.layer = row.layer - before;
  return protocol::to_json_form(rows);
}

class LayerBefore : public ::testing::Test {
 protected:
  template <class Ask>
  void expect_same_rows(const Ask& ask) {
    const auto more = ask(models_.more), less = ask(models_.less);
    EXPECT_EQ(less.rows.size(), 4u);
    EXPECT_EQ(rows_of(more.rows, 1), rows_of(less.rows, 0));
    EXPECT_NE(more.provenance.note.find("1 of its 3 layers"), std::string::npos)
        << more.provenance.note;
    EXPECT_EQ(less.provenance.note, "");
  }

  WithALayerBefore models_;
  Texts texts_ = random_texts(3, 24, 32, 9);
  protocol::NoProgress nobody_;
};

TEST_F(LayerBefore, ChangesNoProfile) {
  ProfileOptions options;
  options.samples = 20;
  expect_same_rows(
      [&](const auto& model) { return analyse_profile(model, texts_, options, nobody_); });
}

TEST_F(LayerBefore, ChangesNoDemand) {
  expect_same_rows(
      [&](const auto& model) { return analyse_demand(model, texts_, {}, nobody_).result; });
  const auto more = analyse_demand(models_.more, texts_, {}, nobody_).result;
  const auto less = analyse_demand(models_.less, texts_, {}, nobody_).result;
  EXPECT_EQ(more.share_beyond_trained.mean, less.share_beyond_trained.mean);
}

TEST_F(LayerBefore, ChangesNoXray) {
  for (const bool clamp : {false, true}) {
    XrayOptions options;
    options.clamp = clamp;
    options.repair = true;
    const auto ask = [&](const auto& model) {
      return analyse_xray(model, texts_, options, nobody_);
    };
    expect_same_rows(ask);
    EXPECT_EQ(rows_of(ask(models_.more).unseen, 1), rows_of(ask(models_.less).unseen, 0));
    EXPECT_EQ(ask(models_.more).passes, ask(models_.less).passes);
  }
}

TEST_F(LayerBefore, ChangesNoAddressing) {
  expect_same_rows([&](const auto& model) {
    return analyse_addressing(testing::passes_for(model, 3), {}, nobody_);
  });
}

TEST_F(LayerBefore, ChangesNoAcuity) {
  AcuityOptions options;
  options.by = "head", options.seeds = {1}, options.bands = {{1, 5}};
  expect_same_rows(
      [&](const auto& model) { return analyse_acuity(model, texts_, options, nobody_); });
}

TEST_F(LayerBefore, ChangesNoShift) {
  ShiftOptions options;
  options.by = {3};
  const auto rows = [&](const auto& model, std::int64_t before) {
    return rows_of(analyse_shift(model, texts_.items[0].ids, options, nobody_).rows, before);
  };
  EXPECT_EQ(rows(models_.more, 1), rows(models_.less, 0));
}

TEST_F(LayerBefore, ChangesNoDistance) {
  for (const std::int64_t texts : {1, 3}) {
    DistanceOptions options;
    options.per_head = true, options.pairs = 200, options.bases = {100};
    options.near = {1, 4}, options.far = {12, 20};
    const auto ask = [&](const auto& model, std::int64_t layer) {
      options.heads = {{layer, 1}};
      return analyse_distance(testing::passes_for(model, texts), options, nobody_, nullptr);
    };
    auto more = ask(models_.more, 2), less = ask(models_.less, 1);
    EXPECT_NE(more.note.find("1 of its 3 layers"), std::string::npos) << more.note;
    ASSERT_EQ(more.layers.size(), 3u);
    EXPECT_TRUE(more.layers[0].profile.empty());
    EXPECT_FALSE(more.layers[0].histogram.has_value());
    EXPECT_TRUE(more.heads[0].profile.empty());
    more.layers.erase(more.layers.begin());
    more.heads.erase(more.heads.begin(), more.heads.begin() + 2);
    for (auto* groups : {&more.layers, &more.heads}) {
      for (protocol::DistanceGroup& group : *groups) group.layer = *group.layer - 1;
    }
    for (protocol::IntrinsicBias& bias : more.intrinsic) --bias.layer;
    for (protocol::HeadBias& bias : more.head_bias) --bias.layer;
    EXPECT_EQ(less.intrinsic.size(), 4u);
    more.note = less.note;
    EXPECT_EQ(protocol::to_json_form(more), protocol::to_json_form(less));
  }
}

TEST_F(LayerBefore, ChangesNoComparison) {
  const WithALayerBefore others("rope", 7);
  const auto ask = [&](const auto& a, const auto& b, at::Tensor& between) {
    return analyse_compare(testing::passes_for(a, 3), testing::passes_for(b, 3), nobody_,
                           {.match = true}, &between);
  };
  at::Tensor of_more, of_less;
  auto more = ask(models_.more, others.more, of_more);
  const auto less = ask(models_.less, others.less, of_less);
  EXPECT_EQ(less.heads.size(), 4u);
  EXPECT_EQ(rows_of(more.heads, 1), rows_of(less.heads, 0));
  for (protocol::HeadMatch& match : more.matches) --match.other_layer;
  EXPECT_EQ(less.matches.size(), 4u);
  EXPECT_EQ(rows_of(more.matches, 1), rows_of(less.matches, 0));
  EXPECT_EQ(more.loss, less.loss);
  ASSERT_EQ(of_more.sizes(), (at::IntArrayRef{6, 6}));
  EXPECT_TRUE(of_more.slice(0, 2).slice(1, 2).equal(of_less));
  EXPECT_EQ(of_more.isnan().sum().item<std::int64_t>(), 6 * 6 - 4 * 4);
  EXPECT_NE(more.provenance.note.find("1 of its 3 layers"), std::string::npos)
      << more.provenance.note;
  EXPECT_EQ(less.provenance.note, "");
}

// Beside a model of whole layers those that both have are compared.
TEST_F(LayerBefore, IsComparedByTheLayersOfBoth) {
  model::ModelConfig config = testing::small_config("rope");
  config.layers = 3;
  const auto whole = model::random_model(config, 5);
  at::Tensor between;
  const auto result =
      analyse_compare(testing::passes_for(models_.more, 1), testing::passes_for(whole, 1), nobody_,
                      {.match = true}, &between);
  ASSERT_EQ(result.heads.size(), 4u);
  EXPECT_EQ(result.heads.front().layer, 1);
  EXPECT_EQ(result.matches.size(), 4u);
  for (const protocol::HeadMatch& match : result.matches) EXPECT_GE(match.layer, 1);
  EXPECT_EQ(between.isnan().any(1).sum().item<std::int64_t>(), 2);
  const auto pass = testing::passes_for(models_.more, 1)[0],
             other = testing::passes_for(whole, 1)[0];
  const at::Tensor rows = divergence_of(*pass->layer(2), *other->layer(2));
  EXPECT_NEAR(result.heads[3].js_divergence, rows[1].mean().item<double>(), 1e-12);
}

TEST_F(LayerBefore, ChangesNoDivergenceOfEveryTwoHeads) {
  HeadsOptions options;
  options.metrics = {"js_divergence"};
  const auto ask = [&](const auto& model) {
    return analyse_heads(testing::passes_for(model, 3), options, nobody_);
  };
  const HeadsOutput more = ask(models_.more), less = ask(models_.less);
  for (const char* name : {"js_divergence", "js_divergence_low", "js_divergence_high"}) {
    const auto of = [&](const HeadsOutput& out) {
      return protocol::find_tensor(out.tensors, name)->values<double>();
    };
    const auto all = of(more), some = of(less);
    ASSERT_EQ(all.size(), 36u);
    for (std::size_t n = 0; n < 36; ++n) {
      const std::size_t row = n / 6, column = n % 6;
      if (row < 2 || column < 2) {
        EXPECT_TRUE(std::isnan(all[n])) << name << n;
      } else if (row != column || std::string(name) == "js_divergence") {
        EXPECT_EQ(all[n], some[(row - 2) * 4 + column - 2]) << name << n;
      }
    }
  }
  for (std::size_t n = 0; n < 6; ++n) {
    const double mean = more.result.rows[n].values.at("js_divergence").mean;
    if (n < 2) {
      EXPECT_TRUE(std::isnan(mean));
    } else {
      EXPECT_EQ(mean, less.result.rows[n - 2].values.at("js_divergence").mean);
    }
  }
}

TEST_F(LayerBefore, ChangesNoRowsOfPatterns) {
  for (const char* encoding : {"rope", "cape"}) {
    const WithALayerBefore models(encoding);
    const auto ask = [&](const auto& model) {
      PatternsOptions options;
      options.queries = {10, 20}, options.texts = 2;
      return analyse_patterns(testing::passes_for(model, 3), options, nobody_);
    };
    const PatternsOutput more = ask(models.more), less = ask(models.less);
    EXPECT_EQ(less.result.rows.size(), 16u);
    EXPECT_EQ(rows_of(more.result.rows, 1), rows_of(less.result.rows, 0)) << encoding;
    EXPECT_EQ(less.result.adaptive.size(), 8u);
    EXPECT_EQ(rows_of(more.result.adaptive, 1), rows_of(less.result.adaptive, 0)) << encoding;
    EXPECT_EQ(less.result.surfaces.size(), std::string(encoding) == "cape" ? 4u : 0u);
    EXPECT_EQ(rows_of(more.result.surfaces, 1), rows_of(less.result.surfaces, 0)) << encoding;
    EXPECT_NE(more.result.provenance.note.find("1 of its 3 layers"), std::string::npos);
  }
}

// Checks of heads, on texts of which there are as many as the most demanding of them needs.
TEST_F(LayerBefore, ChangesNoCheckOfHeads) {
  const Texts texts = random_texts(64, 24, 32, 9);
  const std::vector<std::pair<const char*, std::vector<const char*>>> checks = {
      {"rope",
       {"rope.intrinsic_bias", "rope.assumption", "rope.effective_context", "rope.local_gap",
        "tape.neighbourhood_mean", "ape.rope_equivalence"}},
      {"cape", {"cape.adaptive", "cape.surface"}},
      {"tapa", {"tapa.decay", "tapa.nondegenerate"}}};
  for (const auto& [encoding, ids] : checks) {
    const WithALayerBefore models(encoding);
    for (const char* id : ids) {
      const auto ask = [&](const testing::ModelPointer& model) {
        CheckContext context;
        context.model = model, context.texts = &texts, context.progress = &nobody_;
        context.seed = 1, context.pairs = 200;
        return run_check(select_checks({id}).at(0), context);
      };
      const CheckResult more = ask(models.more), less = ask(models.less);
      EXPECT_EQ(more.verdict, less.verdict) << id << ": " << more.detail;
      EXPECT_EQ(less.detail.find("does not"), std::string::npos) << id << ": " << less.detail;
      const auto value = [](const CheckResult& result) {
        return protocol::to_json_form(result).at("value");
      };
      EXPECT_EQ(value(more), value(less)) << id;
      EXPECT_EQ(more.samples, less.samples) << id;
      ASSERT_EQ(more.curves.size(), less.curves.size()) << id;
      for (std::size_t n = 0; n < more.curves.size(); ++n) {
        EXPECT_EQ(protocol::to_json_form(more.curves[n].y),
                  protocol::to_json_form(less.curves[n].y))
            << id << n;
      }
    }
  }
}

TEST(MissingHeads, ACheckOfAHeadThatIsNotThereIsRefused) {
  protocol::NoProgress nobody;
  const Texts texts = random_texts(8, 24, 32, 9);
  CheckContext context;
  context.model = uneven_model(), context.texts = &texts, context.progress = &nobody;
  context.layer = 2, context.head = 2;
  try {
    run_check(select_checks({"rope.intrinsic_bias"}).at(0), context);
    ADD_FAILURE() << "was not refused";
  } catch (const formats::Error& error) {
    EXPECT_EQ(error.message(), "there is no head 2 of layer 2");
  }
}

// Of layers with fewer heads than others, too: every entry of the bias that is read moves the loss
// by the demand for it, and no other does.
TEST(MissingHeads, DemandIsTheDerivativeOfTheLoss) {
  const auto model = model::in_dtype(uneven_model(), at::kDouble);
  const std::vector<std::int64_t> ids = random_texts(1, 16, 32, 9).items[0].ids;
  const DemandPass with{model::Backend::plain, true, nullptr, nullptr};
  const DemandPass without{model::Backend::plain, false, nullptr, nullptr};
  const at::Tensor demand = demand_of(*model, ids, {}, with).demand;
  ASSERT_EQ(demand.sizes(), (std::vector<std::int64_t>{kLayers, kHeads, 16}));
  std::vector<std::int64_t> edges(16);
  std::iota(edges.begin(), edges.end(), 0);
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      at::Tensor direction = at::zeros_like(demand);
      direction[layer][head] = at::randn({16}, generator, at::kDouble) / 4;
      const auto loss = [&](double step) {
        return demand_of(*model, ids, {direction * step, edges}, without).loss;
      };
      // A central difference is off by the square of its step, of a second derivative near 1, and
      // by a loss's rounding of 1e-14 over it.
      const double measured = (loss(1e-4) - loss(-1e-4)) / 2e-4;
      EXPECT_NEAR(measured, -(demand * direction).sum().item<double>(), 1e-7) << layer << head;
      EXPECT_EQ(demand[layer][head].abs().max().item<double>() > 0, is_there(layer, head));
    }
  }
}

TEST(MissingHeads, HaveNoRowsInQuestions) {
  protocol::NoProgress nobody;
  const auto model = uneven_model();
  const Texts texts = random_texts(2, 24, 32, 9);
  const auto check = [](const auto& rows) {
    EXPECT_EQ(rows.size(), 5u);
    for (const auto& row : rows) EXPECT_TRUE(is_there(row.layer, row.head));
  };
  check(analyse_profile(model, texts, {}, nobody).rows);
  check(analyse_demand(model, texts, {}, nobody).result.rows);
  check(analyse_addressing(testing::passes_for(model), {}, nobody).rows);
}

// A head that some layers lack is told of where it is; a layer by name that lacks it is refused.
TEST(MissingHeads, AreRefusedByName) {
  protocol::NoProgress nobody;
  const auto passes = testing::passes_for(uneven_model());
  AddressingOptions options;
  options.heads = {2};
  const auto rows = analyse_addressing(passes, options, nobody).rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].layer, 1);
  for (const std::int64_t layer : {0, 2}) {
    options.layers = {layer};
    try {
      analyse_addressing(passes, options, nobody);
      ADD_FAILURE() << "was not refused";
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "bad_usage");
      EXPECT_EQ(error.message(), layer == 0
                                     ? "layer 0 has a state in place of attention, and no maps"
                                     : "layer 2 has 2 heads, none of those asked for");
    }
  }
}

TEST(MissingHeads, NoneAtAllAreOneSentence) {
  protocol::NoProgress nobody;
  model::ModelConfig config = testing::small_config("rope");
  config.linear = {
      .layers = {0, 1}, .key_heads = 1, .value_heads = 2, .key_dim = 4, .value_dim = 4};
  const auto model = model::random_model(config, 3);
  const Texts texts = random_texts(1, 24, 32, 9);
  const auto refused = [&](const char* what, const std::function<void()>& ask) {
    try {
      ask();
      ADD_FAILURE() << what << " was not refused";
    } catch (const formats::Error& error) {
      EXPECT_EQ(error.code(), "not_applicable") << what;
      EXPECT_NE(error.full_text().find("2 of its 2 layers"), std::string::npos) << what;
    }
  };
  refused("profile", [&] { analyse_profile(model, texts, {}, nobody); });
  refused("demand", [&] { analyse_demand(model, texts, {}, nobody); });
  refused("addressing", [&] { analyse_addressing(testing::passes_for(model), {}, nobody); });
  refused("shift", [&] { analyse_shift(model, texts.items[0].ids, {}, nobody); });
  refused("distance", [&] { analyse_distance(testing::passes_for(model), {}, nobody, nullptr); });
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
