// Several residual streams, sparse gates and the low-rank branch against sums written out in
// double.
#include "model/streams.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "formats/hf_config.h"
#include "golden.h"
#include "model/checkpoints/open_model.h"
#include "model/feed_forward.h"

namespace phasescope::model {
namespace {

// Sums of a few dozen products in double.
constexpr double kRounding = 1e-12;

ModelConfig with_streams() {
  ModelConfig config = tiny_config("rope");
  config.norm.placement = "sandwich";
  config.streams = {.count = 3, .active = 1, .scaled = true};
  config.attention.low_rank = 2;
  config.embedding.layer_width = 4, config.embedding.layer_rows = 20;
  config.layer_groups = {{.layers = {1}, .sparsity = 0.7}};
  config.init_std = 0.3;
  return config;
}

double value(const at::Tensor& x) { return x.item<double>(); }

// tanh(W rms(x) / C) of one token's x (C).
std::vector<double> routes_of(const ModelConfig& config, const LayerWeights& w,
                              const at::Tensor& x) {
  double square = 0;
  for (std::int64_t c = 0; c < config.width; ++c) square += std::pow(value(x[c]), 2);
  const double size = std::sqrt(square / static_cast<double>(config.width) + config.norm_eps);
  std::vector<double> routes;
  for (std::int64_t s = 0; s < config.streams.count; ++s) {
    double sum = 0;
    for (std::int64_t c = 0; c < config.width; ++c) {
      sum += value(w.stream_router[s][c]) * value(w.stream_router_norm[c]) * value(x[c]) / size;
    }
    routes.push_back(std::tanh(sum / static_cast<double>(config.width)));
  }
  return routes;
}

TEST(Streams, ArePredictedAndCorrectedByTheirCoefficients) {
  const at::NoGradGuard no_grad;
  const auto model = random_model(with_streams(), 3, at::kDouble);
  const ModelConfig& config = model->config();
  LayerWeights w = model->decoder.weights().layers[0];
  w.stream_router = w.stream_router * 20;  // coefficients that are far from 0
  const at::Tensor streams = at::randn({3, 1, 2, config.width}, at::kDouble);
  const at::Tensor result = at::randn({1, 2, config.width}, at::kDouble);
  const at::Tensor predicted = predicted_streams(config, w, streams, {});
  const at::Tensor corrected = corrected_streams(config, w, predicted, result, {});
  for (std::int64_t token = 0; token < 2; ++token) {
    const auto before = routes_of(config, w, streams[1][0][token]);
    const auto after = routes_of(config, w, result[0][token]);
    for (std::int64_t to = 0; to < 3; ++to) {
      double moved = 1;
      for (std::int64_t s = 0; s < 3; ++s) {
        moved += value(w.stream_correction[to][s]) * after[static_cast<std::size_t>(s)];
      }
      for (std::int64_t c = 0; c < config.width; c += 5) {
        double foreseen = value(streams[to][0][token][c]);
        for (std::int64_t from = 0; from < 3; ++from) {
          double coefficient = 0;
          for (std::int64_t s = 0; s < 3; ++s) {
            coefficient +=
                value(w.stream_prediction[to * 3 + from][s]) * before[static_cast<std::size_t>(s)];
          }
          foreseen += coefficient * value(streams[from][0][token][c]);
        }
        EXPECT_NEAR(value(predicted[to][0][token][c]), foreseen, kRounding);
        const double news = value(result[0][token][c]) - value(predicted[1][0][token][c]);
        EXPECT_NEAR(value(corrected[to][0][token][c]), foreseen + moved * news, kRounding);
      }
    }
  }
}

TEST(Streams, BeginAndEndWithTheSizeOfTheFirst) {
  const at::NoGradGuard no_grad;
  const auto model = random_model(with_streams(), 3, at::kDouble);
  const Weights& weights = model->decoder.weights();
  const at::Tensor x = at::randn({2, 5, model->config().width}, at::kDouble);
  const at::Tensor streams = begin_streams(weights, x, {});
  ASSERT_EQ(streams.sizes(), at::IntArrayRef({3, 2, 5, model->config().width}));
  EXPECT_TRUE(streams[0].equal(x));
  const at::Tensor size = x.norm(2, -1);
  for (std::int64_t n = 1; n < 3; ++n) {
    EXPECT_LT(value((streams[n].norm(2, -1) / size - 1).abs().max()), kRounding);
    const at::Tensor own = at::matmul(x, weights.streams_in[static_cast<std::size_t>(n - 1)].t());
    EXPECT_LT(value((at::cosine_similarity(own, streams[n], -1) - 1).abs().max()), kRounding);
  }
  const at::Tensor joined = joined_streams(weights, streams, {});
  at::Tensor sum = x;
  for (std::int64_t n = 1; n < 3; ++n) {
    const at::Tensor own =
        at::matmul(streams[n], weights.streams_out[static_cast<std::size_t>(n - 1)].t());
    sum = sum + own * (size / own.norm(2, -1)).unsqueeze(-1);
  }
  EXPECT_LT(value((joined - sum / 3).abs().max()), kRounding);
}

TEST(Streams, SurviveSavingAndOpening) {
  const at::NoGradGuard no_grad;
  const auto model = random_model(with_streams(), 4, at::kDouble);
  TemporaryFolder folder;
  save_model(formats::real_file_system(), folder.path(), model->config(), model->encoding(),
             model->decoder.weights(), at::kDouble);
  const auto again = open_model(folder.path().string(), {.dtype = at::kDouble});
  const at::Tensor ids = random_ids(2, 11, model->config().vocab_size);
  EXPECT_TRUE(again->decoder.forward(ids).equal(model->decoder.forward(ids)));
  EXPECT_EQ(again->config().shape_of(1).sparsity, 0.7);
}

TEST(Streams, AreRefusedWhereTheyCannotBe) {
  const auto problems_of = [](const ModelConfig& config) {
    formats::ConfigProblems problems;
    check_model_config(config, problems);
    std::string all;
    for (const std::string& problem : problems.list()) all += problem + "\n";
    return all;
  };
  EXPECT_EQ(problems_of(with_streams()), "");
  ModelConfig config = with_streams();
  config.streams.active = 3;
  EXPECT_NE(problems_of(config).find("streams.active"), std::string::npos);
  config = with_streams();
  config.streams.count = std::int64_t{1} << 30;  // would take memory without end
  EXPECT_NE(problems_of(config).find("1..64"), std::string::npos);
  config = with_streams();
  config.norm.placement = "pre";
  EXPECT_NE(problems_of(config).find("attention.low_rank"), std::string::npos);
  config = with_streams();
  config.layer_groups[0].sparsity = 1;
  EXPECT_NE(problems_of(config).find("mlp_sparsity"), std::string::npos);
}

// Gates g become max(0, g - (mean + deviation q)), q the quantile of a normal distribution.
TEST(FeedForward, SparseGatesAreMeasuredFromAQuantile) {
  const at::NoGradGuard no_grad;
  constexpr double kQuantile = 1.6448536269514722;  // of 0.95
  const auto model = random_model(with_streams(), 5, at::kDouble);
  const ModelConfig& config = model->config();
  const LayerWeights& w = model->decoder.weights().layers[0];
  const at::Tensor x = at::randn({1, 3, config.width}, at::kDouble);
  const at::Tensor y = feed_forward(config, w, x, {}, at::kDouble, 0.95);
  const at::Tensor gates = at::matmul(x, w.gate.t());
  const at::Tensor low = gates.mean(-1, true) + kQuantile * gates.std(-1, false, true);
  const at::Tensor left = (gates - low).clamp_min(0);
  const at::Tensor inner = left / (1 + at::exp(-left)) * at::matmul(x, w.up.t());
  EXPECT_LT(value((y - at::matmul(inner, w.down.t())).abs().max()), kRounding);
  EXPECT_GT(value(left.max()), 0);
}

}  // namespace
}  // namespace phasescope::model
