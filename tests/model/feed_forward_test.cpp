// Experts, sinks, gates and linear layers against sums written out in double.
#include "model/feed_forward.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "golden.h"
#include "model/attention/layer_attention.h"
#include "model/checkpoints/open_model.h"
#include "tests/model/attention_keeper.h"

namespace phasescope::model {
namespace {

// Sums of a few dozen products in double.
constexpr double kRounding = 1e-12;

ModelConfig with_experts() {
  ModelConfig config = tiny_config("rope");
  config.experts.count = 6;
  config.experts.per_token = 2;
  config.experts.width = 5;
  config.experts.layers = {0};
  config.init_std = 0.5;
  return config;
}

std::vector<double> row_of(const at::Tensor& x) {
  const at::Tensor flat = x.to(at::kDouble).contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

std::vector<double> times(const at::Tensor& matrix, const std::vector<double>& x) {
  std::vector<double> y;
  for (std::int64_t r = 0; r < matrix.size(0); ++r) {
    const std::vector<double> row = row_of(matrix[r]);
    y.push_back(std::inner_product(row.begin(), row.end(), x.begin(), 0.0));
  }
  return y;
}

// down(silu(gate x) * up x)
std::vector<double> expert(const ExpertWeights& w, const std::vector<double>& x) {
  const std::vector<double> gate = times(w.gate, x), up = times(w.up, x);
  std::vector<double> inner;
  for (std::size_t n = 0; n < gate.size(); ++n) {
    inner.push_back(gate[n] / (1 + std::exp(-gate[n])) * up[n]);
  }
  return times(w.down, inner);
}

// The best of these by their ranks.
std::vector<std::size_t> best_of(const std::vector<double>& ranks, std::size_t count) {
  std::vector<std::size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return ranks[a] > ranks[b]; });
  order.resize(count);
  return order;
}

void expect_row(const at::Tensor& ours, const std::vector<double>& exact) {
  const std::vector<double> row = row_of(ours);
  ASSERT_EQ(row.size(), exact.size());
  for (std::size_t n = 0; n < row.size(); ++n) EXPECT_NEAR(row[n], exact[n], kRounding);
}

TEST(Experts, AreTheWeightedSumOfTheBest) {
  const at::NoGradGuard no_grad;
  for (const bool normalised : {false, true}) {
    ModelConfig config = with_experts();
    config.experts.normalised = normalised;
    config.experts.scale = 1.5;
    const auto model = random_model(config, 3, at::kDouble);
    const LayerWeights& w = model->decoder.weights().layers[0];
    const at::Tensor x = at::randn({2, 7, config.width}, at::kDouble);
    const at::Tensor y = feed_forward(config, w, x, {}, at::kDouble);
    for (std::int64_t token = 0; token < 14; ++token) {
      const std::vector<double> in = row_of(x.view({14, -1})[token]);
      std::vector<double> scores = times(w.router, in);
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score);
      const std::vector<std::size_t> best = best_of(scores, 2);
      if (normalised) sum = scores[best[0]] + scores[best[1]];
      std::vector<double> exact(in.size(), 0);
      for (const std::size_t n : best) {
        const std::vector<double> part = expert(w.experts[n], in);
        for (std::size_t c = 0; c < part.size(); ++c) exact[c] += 1.5 * scores[n] / sum * part[c];
      }
      expect_row(y.view({14, -1})[token], exact);
    }
  }
}

TEST(Experts, AreChosenAmongTheBestGroupsByABiasedScore) {
  const at::NoGradGuard no_grad;
  ModelConfig config = with_experts();
  config.experts.router = "sigmoid";
  config.experts.choice_bias = config.experts.groups_by_two = true;
  config.experts.groups = 2, config.experts.groups_per_token = 1;
  const auto model = random_model(config, 3, at::kDouble);
  LayerWeights w = model->decoder.weights().layers[0];
  w.choice_bias = at::tensor({0.3, -0.2, 0.1, 0.0, 0.4, -0.1}, at::kDouble);
  const std::vector<double> bias = row_of(w.choice_bias);
  const at::Tensor x = at::randn({20, config.width}, at::kDouble);
  const ChosenExperts chosen = choose_experts(config.experts, w, x, {});
  for (std::int64_t token = 0; token < 20; ++token) {
    std::vector<double> scores = times(w.router, row_of(x[token])), ranks;
    for (std::size_t n = 0; n < 6; ++n) {
      scores[n] = 1 / (1 + std::exp(-scores[n]));
      ranks.push_back(scores[n] + bias[n]);
    }
    const auto of_two = [&](std::size_t begin) {
      std::vector<double> group(ranks.begin() + static_cast<std::ptrdiff_t>(begin),
                                ranks.begin() + static_cast<std::ptrdiff_t>(begin + 3));
      std::sort(group.rbegin(), group.rend());
      return group[0] + group[1];
    };
    const std::size_t closed = of_two(0) > of_two(3) ? 3 : 0;  // the group that is not seen
    for (std::size_t n = closed; n < closed + 3; ++n) ranks[n] = -1e9;
    const std::vector<std::size_t> best = best_of(ranks, 2);
    for (std::int64_t n = 0; n < 2; ++n) {
      const std::size_t expected = best[static_cast<std::size_t>(n)];
      EXPECT_EQ(chosen.experts[token][n].item<std::int64_t>(), static_cast<std::int64_t>(expected));
      EXPECT_NEAR(chosen.weights[token][n].item<double>(), scores[expected], kRounding);
    }
  }
}

// Inkling's router: the softmax over the logarithms of sigmoids of the chosen and the shared ones'
// logits, times two numbers.
TEST(Experts, OfAllTokensTakePartOfTheRoutersWeight) {
  const at::NoGradGuard no_grad;
  ModelConfig config = with_experts();
  config.experts.router = "sigmoid";
  config.experts.shared_count = 2;
  config.experts.scale = 3;
  const auto model = random_model(config, 3, at::kDouble);
  LayerWeights w = model->decoder.weights().layers[0];
  w.router_total = at::full({1}, 0.7, at::kDouble);
  ASSERT_EQ(w.router.size(0), 8);
  ASSERT_EQ(w.shared_experts.size(), 2u);
  const at::Tensor x = at::randn({9, config.width}, at::kDouble);
  const at::Tensor y = feed_forward(config, w, x, {}, at::kDouble);
  for (std::int64_t token = 0; token < 9; ++token) {
    const std::vector<double> in = row_of(x[token]);
    std::vector<double> shares = times(w.router, in);
    for (double& share : shares) share = 1 / (1 + std::exp(-share));
    const std::vector<double> routed(shares.begin(), shares.begin() + 6);
    std::vector<std::size_t> own = best_of(routed, 2);
    own.insert(own.end(), {6, 7});
    double sum = 0;
    for (const std::size_t n : own) sum += shares[n];  // exp(log(sigmoid))
    std::vector<double> exact(in.size(), 0);
    for (const std::size_t n : own) {
      const std::vector<double> part = expert(n < 6 ? w.experts[n] : w.shared_experts[n - 6], in);
      for (std::size_t c = 0; c < part.size(); ++c) exact[c] += 2.1 * shares[n] / sum * part[c];
    }
    expect_row(y[token], exact);
  }
}

TEST(Experts, HaveSlopesThatGradientsAgreeWith) {
  ModelConfig config = with_experts();
  const auto model = random_model(config, 3, at::kDouble);
  const LayerWeights& w = model->decoder.weights().layers[0];
  at::Tensor x = at::randn({1, 3, config.width}, at::kDouble).requires_grad_(true);
  const at::Tensor direction = at::randn_like(x);
  const auto value = [&](const at::Tensor& at_x) {
    return feed_forward(config, w, at_x, {}, at::kDouble).square().sum();
  };
  value(x).backward();
  const double slope = (x.grad() * direction).sum().item<double>();
  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;  // a central difference is off by its square
  const double difference =
      (value(x + kStep * direction) - value(x - kStep * direction)).item<double>() / (2 * kStep);
  EXPECT_NEAR(slope, difference, 1e-6 * std::abs(slope));
}

// What a forward pass leaves of layer 0.
std::shared_ptr<const LayerAttention> attention_of(const ModelConfig& config, double sink) {
  const at::NoGradGuard no_grad;
  const auto model = random_model(config, 5, at::kDouble);
  Weights weights = model->decoder.weights();
  if (weights.layers[0].sinks.defined()) {
    weights.layers[0].sinks = at::full({config.heads}, sink, at::kDouble);
  }
  const auto changed = model_of(config, std::move(weights), "sinks");
  AttentionKeeper keeper;
  changed->decoder.hidden(random_ids(1, 9, config.vocab_size), {}, &keeper);
  return keeper.layers.at(0);
}

TEST(Sinks, TakeTheirShareOfEveryRow) {
  ModelConfig config = tiny_config("rope");
  config.init_std = 0.3;
  const auto plain = attention_of(config, 0);
  config.attention.sink_layers = {0};
  for (const double sink : {-1.0, 0.5, 3.0}) {
    const auto with = attention_of(config, sink);
    ASSERT_EQ(with->program().sinks.numel(), config.heads);
    // gpt-oss: equal to the softmax times sigmoid(LSE - sink).
    const at::Tensor share = at::sigmoid(plain->lse() - sink);
    const at::Tensor weights = with->weights(with->whole());
    const at::Tensor exact = plain->weights(plain->whole()) * share.unsqueeze(-1);
    EXPECT_LT((weights - exact).abs().max().item<double>(), kRounding);
    EXPECT_LT((weights.sum(-1) - share).abs().max().item<double>(), kRounding);
    // As a probe reads them too.
    const ProbeResult probed = with->probe({.first_key_weight = true});
    const at::Tensor first = exact.select(-1, 0);
    EXPECT_LT((probed.first_key_weight - first).abs().max().item<double>(), kRounding);
  }
}

TEST(LatentAttention, HasContentAndPositionByConstruction) {
  ModelConfig config = tiny_config("rope");
  config.kv_heads = config.heads;
  config.head_dim = 10;
  config.attention.kv_rank = 7, config.attention.q_rank = 5;
  config.attention.position_dim = 4, config.attention.value_dim = 6;
  config.encoding.options["partial_rotary_factor"] = 0.4;
  config.init_std = 0.3;
  const auto attention = attention_of(config, 0);
  const ScoreParts parts = attention->scores(attention->whole());
  const auto product = [&](const at::Tensor& q, const at::Tensor& k, std::int64_t begin,
                           std::int64_t size) {
    return at::matmul(q.narrow(-1, begin, size), k.narrow(-1, begin, size).transpose(-1, -2)) /
           std::sqrt(10.0);
  };
  // The channels behind the turned ones are the content, and no position touches them.
  const at::Tensor content = product(attention->q(), attention->k(), 4, 6);
  EXPECT_LT((parts.content - content).abs().max().item<double>(), kRounding);
  const at::Tensor turned = product(attention->q_rotated(), attention->k_rotated(), 0, 4);
  const at::Tensor seen = parts.score.isfinite();
  const at::Tensor off = at::where(seen, parts.positional - turned, at::zeros_like(turned));
  EXPECT_LT(off.abs().max().item<double>(), kRounding);
  // One key of that part for all heads.
  const at::Tensor placed = attention->k().narrow(-1, 0, 4);
  EXPECT_TRUE(placed.equal(placed.slice(1, 0, 1).expand_as(placed)));
}

// Taps that see a token itself alone double what they are added to, and no later token is seen.
TEST(Convolutions, AreAddedToWhatTheyRead) {
  const at::NoGradGuard no_grad;
  ModelConfig config = tiny_config("rope");
  const auto plain = random_model(config, 5, at::kDouble);
  config.attention.convolution = 3;
  const at::Tensor own = at::tensor({0.0, 0.0, 1.0}, at::kDouble);
  Weights doubled = plain->decoder.weights(), with = plain->decoder.weights();
  for (std::size_t n = 0; n < with.layers.size(); ++n) {
    LayerWeights &w = with.layers[n], &twice = doubled.layers[n];
    w.key_conv = own.expand({w.wk.size(0), 3}), w.value_conv = own.expand({w.wv.size(0), 3});
    w.attention_conv = w.mlp_conv = own.expand({config.width, 3});
    twice.wk = 2 * w.wk, twice.wv = 2 * w.wv, twice.wo = 2 * w.wo, twice.down = 2 * w.down;
  }
  const at::Tensor ids = random_ids(1, 9, config.vocab_size);
  const at::Tensor exact =
      model_of(plain->config(), std::move(doubled), "doubled")->decoder.forward(ids);
  const auto model = model_of(config, std::move(with), "convolved");
  EXPECT_LT(relative_error(model->decoder.forward(ids), exact), 1e-12);
  const auto random = random_model(config, 6, at::kDouble);
  EXPECT_LT(relative_error(random->decoder.forward(ids.slice(1, 0, 5)),
                           random->decoder.forward(ids).slice(1, 0, 5)),
            1e-12);
}

// Scores of layer 0 with the temperature over those without it, row by row.
TEST(Temperature, ThatIsSmoothIsOfTheWholeScore) {
  // The table of few distances, and the term of more than are kept for each query.
  for (const std::int64_t extent : {5, 2000}) {
    SCOPED_TRACE(extent);
    ModelConfig config = tiny_config("relative_logits", {{"extent", extent}, {"rank", 4}});
    config.attention.scale_by_width = true;
    const auto plain = attention_of(config, 0);
    config.attention.temperature = 0.3, config.attention.temperature_length = 4;
    config.attention.temperature_from = 1, config.attention.temperature_smooth = true;
    const auto with = attention_of(config, 0);
    const at::Tensor before = plain->scores(plain->whole()).score;
    const at::Tensor after = with->scores(with->whole()).score;
    for (std::int64_t i = 0; i < 9; ++i) {
      const double factor = 1 + 0.3 * std::log(std::max(1.0, static_cast<double>(i + 1) / 4));
      const at::Tensor seen = before.select(2, i).slice(2, 0, i + 1);
      EXPECT_LT((after.select(2, i).slice(2, 0, i + 1) - factor * seen).abs().max().item<double>(),
                kRounding);
    }
    // q.k over the head's width and what its content adds.
    EXPECT_DOUBLE_EQ(plain->program().scale, 1.0 / static_cast<double>(config.head_dim));
  }
}

TEST(LinearLayers, GiveNoAttentionAndReadThePastAlone) {
  ModelConfig config = tiny_config("rope");
  config.linear = {.layers = {0}, .key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 5};
  config.init_std = 0.3;
  const at::NoGradGuard no_grad;
  const auto model = random_model(config, 5, at::kDouble);
  const at::Tensor ids = random_ids(1, 9, config.vocab_size);
  AttentionKeeper keeper;
  const at::Tensor whole = model->decoder.hidden(ids, {}, &keeper);
  for (const auto& layer : keeper.layers) EXPECT_NE(layer->layer(), 0);
  EXPECT_EQ(keeper.layers.size(), static_cast<std::size_t>(config.layers - 1));
  const at::Tensor half = model->decoder.hidden(ids.slice(1, 0, 5));
  EXPECT_LT((whole.slice(1, 0, 5) - half).abs().max().item<double>(), kRounding);
}

}  // namespace
}  // namespace phasescope::model
