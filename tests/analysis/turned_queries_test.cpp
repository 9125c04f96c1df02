// Models that change turned queries and keys behind their encoding (Llama 4's norm and temperature,
// Ministral's temperature): scores at other distances have both.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "analysis/content_attention.h"
#include "analysis/questions/pair.h"
#include "analysis/questions/treated.h"
#include "model/attention/moved_scores.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kTokens = 20;

// Temperature from the third token on, by steps of four positions, in layer 1 alone or in both.
testing::ModelPointer normed_model(bool norm, std::vector<std::int64_t> temperature_layers) {
  model::ModelConfig config = testing::small_config("rope");
  config.attention.qk_norm_after = norm;
  config.attention.temperature = 0.5;
  config.attention.temperature_length = 4;
  config.attention.temperature_from = 2;
  config.attention.temperature_layers = std::move(temperature_layers);
  return model::random_model(config, 3, at::kDouble);
}

// By hand: the key stands at place 0 and the query at `distance`, both of them normed, and the
// query has the temperature of the place where it stands in the text.
double score_by_hand(const model::AttentionProgram& program, const model::ModelConfig& config,
                     std::int64_t layer, std::int64_t head, std::int64_t row, std::int64_t column,
                     double distance) {
  const at::Tensor q = program.q_plain[0][head][row], k = program.k_plain[0][head][column];
  const std::int64_t planes = q.size(0) / 2;
  double sum = 0, q_square = 0, k_square = 0;
  const auto number = [](const at::Tensor& x, std::int64_t n) { return x[n].item<double>(); };
  for (std::int64_t m = 0; m < planes; ++m) {
    const double a = number(q, m), b = number(q, m + planes);
    const double c = number(k, m), d = number(k, m + planes);
    const double angle =
        distance * std::pow(10000.0, -static_cast<double>(m) / static_cast<double>(planes));
    sum += std::cos(angle) * (a * c + b * d) + std::sin(angle) * (a * d - b * c);
    q_square += (a * a + b * b) / static_cast<double>(q.size(0));
    k_square += (c * c + d * d) / static_cast<double>(q.size(0));
  }
  const model::AttentionConfig& a = config.attention;
  if (a.qk_norm_after) {
    sum /= std::sqrt((q_square + config.norm_eps) * (k_square + config.norm_eps));
  }
  if (a.temperature_layers.empty() || model::names_layer(a.temperature_layers, layer)) {
    const double step = std::floor((static_cast<double>(row) + 2) / 4);
    sum *= 1 + 0.5 * std::log(1 + step);
  }
  return sum / std::sqrt(static_cast<double>(q.size(0)));
}

class MovingByHand final : public model::AttentionHook {
 public:
  explicit MovingByHand(const model::ModelConfig& config) : config_(config) {}

  void before(const model::LayerInput& input, model::AttentionProgram& program) override {
    const at::Tensor row = at::tensor({19, 19, 7, 3, 12}, at::kLong);
    const at::Tensor column = at::tensor({2, 19, 5, 0, 11}, at::kLong);
    const at::Tensor distance = at::tensor({17, 0, 12, 40, 3}, at::kLong);
    const at::Tensor moved = model::moved_scores(input, program, {row, column, distance});
    for (std::int64_t head = 0; head < config_.heads; ++head) {
      for (std::int64_t n = 0; n < row.size(0); ++n) {
        const auto at = [n](const at::Tensor& x) { return x[n].item<std::int64_t>(); };
        EXPECT_NEAR(moved[head][n].item<double>(),
                    score_by_hand(program, config_, input.layer, head, at(row), at(column),
                                  static_cast<double>(at(distance))),
                    1e-12)  // some tens of roundings of numbers near 1
            << input.layer << " " << head << " " << n;
      }
    }
    ++layers;
  }

  std::int64_t layers = 0;

 private:
  const model::ModelConfig& config_;
};

TEST(TurnedQueries, KeepTheirNormAndTemperatureAtOtherDistances) {
  const at::NoGradGuard no_gradients;
  const Text text = random_texts(1, kTokens, 32, 9).items[0];
  for (const bool norm : {false, true}) {
    for (const auto& layers : {std::vector<std::int64_t>{}, std::vector<std::int64_t>{1}}) {
      const auto model = normed_model(norm, layers);
      MovingByHand hook(model->config());
      model::ForwardOptions options;
      options.hook = &hook;
      model->decoder.hidden(ids_tensor(text.ids), options);
      EXPECT_EQ(hook.layers, 2);
    }
  }
}

// By hand: q.k of unit mean square each, without a turn or a temperature.
double content_by_hand(const model::AttentionProgram& program, double eps, std::int64_t head,
                       std::int64_t row, std::int64_t column) {
  const at::Tensor q = program.q_plain[0][head][row].to(at::kDouble);
  const at::Tensor k = program.k_plain[0][head][column].to(at::kDouble);
  const auto size = static_cast<double>(q.size(0));
  const double norms = (q.square().sum().item<double>() / size + eps) *
                       (k.square().sum().item<double>() / size + eps);
  return q.dot(k).item<double>() / std::sqrt(norms * size);
}

// The content is what is left of the score without the turn: the norm behind that is in it, and a
// temperature, which is of the position, is not. As kernels have it, and as plain operations do.
TEST(TurnedQueries, HaveTheirNormInTheContent) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const auto model = model::in_dtype(normed_model(true, {1}), dtype);
    const auto pass = testing::passes_for(model, 1, kTokens)[0];
    // Some tens of roundings of numbers of up to 3.
    const double most = dtype == at::kDouble ? 1e-12 : 1e-5;
    for (const std::int64_t layer : {0, 1}) {
      const AttentionPointer attention = pass->layer(layer);
      const at::Tensor content = attention->content(attention->whole())[0];
      const model::ScoreParts parts = attention->scores(attention->whole());
      const at::Tensor of_probes =
          content_attention(*attention).scores(attention->whole()).score[0];
      for (const auto& [head, row, column] :
           {std::tuple{0, 19, 2}, std::tuple{1, 7, 7}, std::tuple{1, 12, 0}}) {
        const double expected =
            content_by_hand(attention->program(), model->config().norm_eps, head, row, column);
        const auto at = [&](const at::Tensor& x) { return x[head][row][column].item<double>(); };
        EXPECT_NEAR(at(content), expected, most);
        EXPECT_NEAR(at(parts.content[0]), expected, most);
        EXPECT_NEAR(at(of_probes), expected, most);
        const at::Tensor zero = at::zeros({1}, at::kLong);
        const auto pair =
            attention->pair_scores({{zero, zero + head, zero + row, zero + column}, at::kCPU});
        EXPECT_NEAR(pair.content.item<double>(), expected, most);
        // At its own place a pair has no turn, and layer 0 no temperature.
        if (row != column || layer != 0) continue;
        EXPECT_NEAR(at(parts.positional[0]), 0, most);
      }
    }
  }
}

// Far keys take the place of moved pairs only where the queries are those that the score has: of 16
// bits what they grow by is rounded before their product in one, and behind it in the other.
TEST(TurnedQueries, ThatGrowAreClampedByFarKeysOfTheSameRounding) {
  const at::NoGradGuard no_gradients;
  class Clamping final : public model::AttentionHook {
   public:
    void before(const model::LayerInput& input, model::AttentionProgram& program) override {
      model::AttentionProgram clamped = program;
      model::clamp_distances(input, {5, -1}, clamped);
      pair_by_pair += clamped.edit ? 1 : 0;
    }
    int pair_by_pair = 0;
  };
  model::ModelConfig config = testing::small_config("rope");
  config.attention.log_scale = 16;
  const auto model = model::random_model(config, 3, at::kDouble);
  const Text text = random_texts(1, kTokens, 32, 9).items[0];
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    Clamping hook;
    model::ForwardOptions options;
    options.hook = &hook;
    model::in_dtype(model, dtype)->decoder.hidden(ids_tensor(text.ids), options);
    EXPECT_EQ(hook.pair_by_pair, dtype == at::kBFloat16 ? 2 : 0) << dtype;
  }
}

// Of latent attention the channels that have a position are no content, for whoever reads it.
TEST(TurnedQueries, ContentOfLatentAttentionIsTheSameForProbes) {
  model::ModelConfig config = testing::small_config("rope");
  config.head_dim = 10, config.kv_heads = config.heads;
  config.attention.kv_rank = 7, config.attention.position_dim = 4, config.attention.value_dim = 6;
  config.encoding.options["partial_rotary_factor"] = 0.4;
  const auto pass = testing::passes_for(model::random_model(config, 3, at::kDouble), 1, kTokens)[0];
  const AttentionPointer attention = pass->layer(1);
  const at::Tensor content = attention->scores(attention->whole()).content;
  const at::Tensor of_probes = content_attention(*attention).scores(attention->whole()).score;
  const at::Tensor off = (content - of_probes).masked_select(of_probes.isfinite());
  EXPECT_EQ(off.numel(), config.heads * kTokens * (kTokens + 1) / 2);
  EXPECT_LT(off.abs().max().item<double>(), 1e-12);
}

// The curve of a pair goes through the score that the pair has.
TEST(TurnedQueries, HaveTheirOwnScoreOnTheirCurve) {
  protocol::NoProgress nobody;
  const Text text = random_texts(1, kTokens, 32, 9).items[0];
  PairOptions options;
  options.layer = 1, options.head = 0, options.query = 15, options.key = 6;
  for (const bool norm : {false, true}) {
    const auto pair = analyse_pair(normed_model(norm, {}), text, options, nobody);
    std::int64_t there = 0;
    ASSERT_TRUE(pair.curve.has_value());
    for (const protocol::PairPoint& point : *pair.curve) {
      if (point.distance != 9) continue;
      ++there;
      EXPECT_NEAR(point.score, pair.score, 1e-12);
    }
    EXPECT_EQ(there, 1);
  }
}

// Clamped at the farthest distance nothing is treated; one nearer moves the farthest pair, to what
// it is by hand there.
TEST(TurnedQueries, AreReadAtTheirLimits) {
  const at::NoGradGuard no_gradients;
  const auto model = normed_model(true, {});
  const std::vector<std::int64_t> ids = random_texts(1, kTokens, 32, 9).items[0].ids;
  class Clamping final : public model::AttentionHook {
   public:
    explicit Clamping(const model::ModelConfig& config) : config_(config) {}
    void before(const model::LayerInput& input, model::AttentionProgram& program) override {
      const model::AttentionProgram given = program;
      model::clamp_distances(input, {4, 4}, program);
      const model::LayerAttention attention(input.layer, program, program.q, {}, {},
                                            model::Backend::plain, model::ran_plain(program.q));
      const at::Tensor scores = attention.scores(attention.whole()).score[0];
      for (const std::int64_t column : {0, 7, 17}) {
        const double distance = std::min<double>(4, 19 - static_cast<double>(column));
        EXPECT_NEAR(scores[1][19][column].item<double>(),
                    score_by_hand(given, config_, input.layer, 1, 19, column, distance), 1e-12);
      }
    }

   private:
    const model::ModelConfig& config_;
  } hook(model->config());
  model::ForwardOptions options;
  options.hook = &hook;
  options.backend = model::Backend::plain;
  model->decoder.hidden(ids_tensor(ids), options);
}

}  // namespace
}  // namespace phasescope::analysis
