// What is told of heads with learned sinks, whose weights on keys sum to less than 1, against sums
// over their rows in float64.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/distance.h"
#include "analysis/divergence.h"
#include "analysis/heads.h"
#include "analysis/map.h"
#include "analysis/theory/check.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::passes_for;
using testing::small_config;
using testing::weights_of;

constexpr std::int64_t kTokens = 24;
constexpr double kRounding = 1e-6;  // float32 weights, a few roundings each

testing::ModelPointer model_with_sinks() {
  model::ModelConfig config = small_config("rope");
  config.attention.sink_layers = {0};
  return model::random_model(config, 2);
}

// (H, N, N + 1) of layer 0, the last column what the rows lack of 1.
at::Tensor with_sinks(TextPass& pass) {
  const at::Tensor keys = weights_of(pass, 0).to(at::kDouble);
  return at::cat({keys, 1 - keys.sum(-1, true)}, -1);
}

TEST(LearnedSinks, AreInTheStatisticsOfHeads) {
  const at::NoGradGuard no_gradients;
  const auto passes = passes_for(model_with_sinks(), 1, kTokens);
  protocol::NoProgress silent;
  const auto out = analyse_heads(passes, {}, silent);
  const at::Tensor all = with_sinks(*passes[0]);
  const at::Tensor place = at::arange(kTokens, at::kDouble);
  const at::Tensor distance = place.unsqueeze(1) - place;
  ASSERT_GT(std::ranges::count(out.result.rows, 0, &protocol::HeadRow::layer), 0);  // with sinks
  for (const protocol::HeadRow& row : out.result.rows) {
    const auto value = [&row](const char* key) { return row.values.at(key).mean; };
    if (row.layer == 1) {
      EXPECT_TRUE(std::isnan(value("learned_sink")));
      continue;
    }
    const at::Tensor keys = all[row.head].narrow(-1, 0, kTokens);
    const double sink = all[row.head].select(-1, -1).mean().item<double>();
    EXPECT_GT(sink, 0.01);
    EXPECT_NEAR(value("learned_sink"), sink, kRounding);
    const double lengths = (keys * distance).sum().item<double>();
    EXPECT_NEAR(value("mean_distance"), lengths / keys.sum().item<double>(), kTokens * kRounding);
    const double others = (keys * distance).narrow(1, 1, kTokens - 1).sum().item<double>() /
                          keys.narrow(1, 1, kTokens - 1).sum().item<double>();
    EXPECT_NEAR(value("mean_distance_without_first"), others, kTokens * kRounding);
  }
}

// Of one text, which is read row by row, and of several, whose weights the kernel sums.
TEST(LearnedSinks, TakeTheirShareOfTheWeightsByDistance) {
  const at::NoGradGuard no_gradients;
  for (const std::int64_t texts : {1, 2}) {
    const auto passes = passes_for(model_with_sinks(), texts, kTokens);
    DistanceOptions options;
    options.histogram = false, options.intrinsic = false;
    protocol::NoProgress silent;
    const auto out = analyse_distance(passes, options, silent, nullptr);
    for (const protocol::DistancePoint& point : out.layers[0].profile) {
      double sum = 0, pairs = 0;
      for (const auto& pass : passes) {
        const at::Tensor weights = weights_of(*pass, 0).to(at::kDouble);
        for (std::int64_t d = point.distance; d < point.distance_end; ++d) {
          const at::Tensor there = weights.diagonal(-d, 1, 2);
          sum += there.sum().item<double>(), pairs += static_cast<double>(there.numel());
        }
      }
      EXPECT_NEAR(point.weight_mean, sum / pairs, kRounding) << point.distance;
    }
  }
}

TEST(LearnedSinks, AreAKeyThatTwoHeadsMayShare) {
  const at::NoGradGuard no_gradients;
  const auto passes = passes_for(model_with_sinks(), 1, kTokens);
  const at::Tensor all = with_sinks(*passes[0]);
  const auto entropy = [](const at::Tensor& p) { return -at::xlogy(p, p).sum(-1); };
  const at::Tensor a = all[0], b = all[1];
  const double expected =
      (entropy((a + b) / 2) - (entropy(a) + entropy(b)) / 2).mean().item<double>();
  const at::Tensor within = divergence_within(*passes[0], Stack::main, nullptr);
  EXPECT_NEAR(within[0][1].item<double>(), expected, kRounding);
}

// Without queries weights are a mean over what a row sees, of latent queries too; beside a sink the
// statement has no premise.
TEST(LearnedSinks, AreNoMeanOfWhatARowSees) {
  protocol::NoProgress silent;
  const Texts texts = random_texts(1, kTokens, 32, 9);
  const auto verdict = [&](const testing::ModelPointer& model) {
    CheckContext context;
    context.model = model, context.texts = &texts, context.progress = &silent;
    return run_check(select_checks({"tape.neighbourhood_mean"}).at(0), context).verdict;
  };
  EXPECT_EQ(verdict(model_with_sinks()), "premise_not_met");
  model::ModelConfig latent = small_config("rope");
  latent.head_dim = 10, latent.kv_heads = latent.heads;
  latent.attention.kv_rank = 7, latent.attention.q_rank = 5;
  latent.attention.position_dim = 4, latent.attention.value_dim = 6;
  latent.encoding.options["partial_rotary_factor"] = 0.4;
  EXPECT_EQ(verdict(model::random_model(latent, 3)), "holds");
}

TEST(LearnedSinks, StandBesideAMap) {
  const auto passes = passes_for(model_with_sinks(), 1, kTokens);
  protocol::MapRequest options;
  options.head = {"L0H1"};
  options.rows = protocol::Range{4, 20};
  options.size = {8, kTokens};
  const auto out = analyse_map(*passes[0], options);
  ASSERT_EQ(out.tensors.size(), 4u);
  EXPECT_EQ(out.tensors[3].name, "sink_profile");
  const at::Tensor sinks = with_sinks(*passes[0])[1].select(-1, -1).slice(0, 4, 20);
  EXPECT_NEAR(out.result.learned_sink, sinks.mean().item<double>(), kRounding);
  EXPECT_NE(out.result.provenance.note.find("learned sink sum to 1"), std::string::npos);
  const auto cells = out.tensors[3].values<double>();
  ASSERT_EQ(cells.size(), 8u);
  for (std::int64_t n = 0; n < 8; ++n) {
    const double pair = sinks.slice(0, 2 * n, 2 * n + 2).mean().item<double>();
    EXPECT_NEAR(cells[static_cast<std::size_t>(n)], pair, kRounding);
  }
  // In a mean of two heads one without a sink has no weight on it.
  options.head = {"L0H1", "L1H1"};
  EXPECT_NEAR(analyse_map(*passes[0], options).result.learned_sink, sinks.mean().item<double>() / 2,
              kRounding);
  options.head = {"L1H1"};
  const protocol::MapResult without = analyse_map(*passes[0], options).result;
  EXPECT_TRUE(std::isnan(without.learned_sink));
  EXPECT_EQ(without.provenance.note, "");
}

}  // namespace
}  // namespace phasescope::analysis
