// Encodings of 2024 to 2026 against their formulas, written pair by pair in float64.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "../golden.h"
#include "../layer_case.h"
#include "formats/error.h"
#include "model/attention/moved_scores.h"
#include "model/attention/plain_attention.h"

namespace phasescope::model {
namespace {

constexpr std::int64_t kHeads = 2, kDim = 6, kRows = 13;

at::Tensor drawn_numbers(std::vector<std::int64_t> shape, std::uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

// One layer of an encoding over random q, k, v and hidden states, all in float64.
struct LayerTrial {
  explicit LayerTrial(const std::string& key, const Json& options = Json::object(),
                      std::int64_t layer = 0)
      : config(layer_config(key, options, kHeads, kDim)),
        encoding(make_encoding(config)),
        q(drawn_numbers({1, kHeads, kRows, kDim}, 1)),
        k(drawn_numbers({1, kHeads, kRows, kDim}, 2)),
        v(drawn_numbers({1, kHeads, kRows, kDim}, 3)),
        x(drawn_numbers({1, kRows, kHeads * kDim}, 4)) {
    const at::NoGradGuard no_grad;
    std::uint64_t seed = 10;
    for (const ParameterSpec& spec : encoding->parameters()) {
      own[spec.name] = 0.4 * drawn_numbers(spec.shape, seed++);
    }
    for (const ParameterSpec& spec : encoding->shared_parameters()) {
      shared[spec.name] = 0.4 * drawn_numbers(spec.shape, seed++);
    }
    StartContext context;
    context.positions.length = kRows;
    context.dtype = context.angle_dtype = at::kDouble;
    context.shared = &shared;
    PositionState state = encoding->start(context);
    encoding->before_layer(layer, state);
    if (encoding->info().reads_hidden) encoding->read_hidden(own, x, state);
    program = encoding->program(own, q, k, state);
  }

  at::Tensor of_head(const at::Tensor& tensor, std::int64_t h, std::int64_t n) const {
    return tensor[0][h][n];
  }
  double content(std::int64_t h, std::int64_t i, std::int64_t j) const {
    return q[0][h][i].dot(k[0][h][j]).item<double>() / std::sqrt(static_cast<double>(kDim));
  }
  at::Tensor token(std::int64_t n) const { return x[0][n]; }

  ModelConfig config;
  std::unique_ptr<Encoding> encoding;
  at::Tensor q, k, v, x;
  Parameters own, shared;
  AttentionProgram program;
};

using PairScore = std::function<double(std::int64_t h, std::int64_t i, std::int64_t j)>;

// Scores of pairs that are seen, of two ways to the same in float64.
void expect_scores(const LayerTrial& trial, const PairScore& expected) {
  const at::NoGradGuard no_grad;
  const at::Tensor scores = plain_scores(trial.program, {0, kHeads}, {0, kRows}, {0, kRows})[0];
  double largest = 0, error = 0;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const double want = expected(h, i, j);
        largest = std::max(largest, std::abs(want));
        error = std::max(error, std::abs(scores[h][i][j].item<double>() - want));
      }
    }
  }
  EXPECT_GT(largest, 0.5);
  EXPECT_LE(noted(trial.config.encoding.key, kDefinition, "f64", error / largest), 1e-12);
}

// d/2 complex numbers of a row of channels, planes (m, m + d/2), turned by angles (d/2).
at::Tensor turned_row(const at::Tensor& row, const at::Tensor& angles) {
  const at::Tensor a = row.slice(0, 0, kDim / 2), b = row.slice(0, kDim / 2);
  return at::cat({a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()});
}

at::Tensor frequencies_of_planes() {
  return at::pow(10000.0, -2 * at::arange(kDim / 2, at::kDouble) / static_cast<double>(kDim));
}

const double kScale = 1 / std::sqrt(static_cast<double>(kDim));

TEST(Forms, FoxAddsTheLogarithmsOfItsGates) {
  const LayerTrial trial("fox");
  const auto gate = [&](std::int64_t h, std::int64_t n) {
    const double z = trial.own.at("fgate_proj.weight")[h].dot(trial.token(n)).item<double>() +
                     trial.own.at("fgate_proj.bias")[h].item<double>();
    return std::log(1 / (1 + std::exp(-z)));
  };
  expect_scores(trial, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    double sum = trial.content(h, i, j);
    for (std::int64_t t = j + 1; t <= i; ++t) sum += gate(h, t);
    return sum;
  });
}

TEST(Forms, FoxRunsFusedWithItsGradients) {
  const LayerTrial trial("fox");
  // Gates' sums as operands: what flows to them flows on to x and the gates' weights.
  const auto run = [&](at::ScalarType dtype, Backend backend) {
    AttentionProgram program = trial.program;
    at::Tensor sums = trial.program.tokens.query.detach().clone().requires_grad_();
    program.q = program.q_plain = trial.q.to(dtype);
    program.k = program.k_plain = trial.k.to(dtype);
    program.tokens.query = sums, program.tokens.key = -sums;
    const AttentionResult result = attention(program, trial.v.to(dtype), {.backend = backend});
    EXPECT_EQ(result.ran.implementation == "plain", backend == Backend::plain);
    (result.out * at::arange(result.out.numel(), at::kDouble).cos().view(result.out.sizes()))
        .sum()
        .backward();
    return std::pair{result.out.detach(), sums.grad()};
  };
  const auto [exact, exact_gradient] = run(at::kDouble, Backend::plain);
  const auto [fused, fused_gradient] = run(at::kFloat, Backend::fused);
  // Of sums of thirteen weights in float32.
  EXPECT_LT(relative_error(fused, exact), 2e-6);
  EXPECT_LT(relative_error(fused_gradient, exact_gradient), 2e-6);
}

TEST(Forms, StickBreakingTakesPiecesFromTheQueryBack) {
  const LayerTrial trial("stick_breaking");
  const at::NoGradGuard no_grad;
  const AttentionBlock block = plain_block(trial.program, trial.v, {0, kRows});
  double error = 0;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      double left = 1;
      for (std::int64_t j = i; j >= 0; --j) {
        const double piece = 1 / (1 + std::exp(-trial.content(h, i, j)));
        error = std::max(error, std::abs(block.weights[0][h][i][j].item<double>() - left * piece));
        left *= 1 - piece;
      }
      error = std::max(error, std::abs(block.sink_weight[0][h][i].item<double>() - left));
    }
  }
  EXPECT_LT(noted("stick_breaking", kDefinition, "f64", error), 1e-14);  // of weights up to 1
}

TEST(Forms, PathMultipliesTheMatricesOfTheTokensBetween) {
  const LayerTrial trial("path");
  const auto matrix = [&](std::int64_t h, std::int64_t t) {
    const at::Tensor row = at::matmul(
        trial.own.at("w_proj.weight").slice(0, h * kDim, (h + 1) * kDim), trial.token(t));
    const at::Tensor w = row / (row.square().sum() + 1e-6).sqrt();
    const double z = trial.own.at("beta_proj.weight")[h].dot(trial.token(t)).item<double>() +
                     trial.own.at("beta_proj.bias")[h].item<double>();
    return at::eye(kDim, at::kDouble) - 2 / (1 + std::exp(-z)) * at::outer(w, w);
  };
  expect_scores(trial, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    at::Tensor product = at::eye(kDim, at::kDouble);
    for (std::int64_t t = j + 1; t <= i; ++t) product = at::matmul(product, matrix(h, t));
    return kScale * trial.of_head(trial.k, h, j)
                        .dot(at::matmul(product, trial.of_head(trial.q, h, i)))
                        .item<double>();
  });
}

TEST(Forms, PopeKeepsSizesAndPhasesApart) {
  const LayerTrial trial("pope");
  expect_scores(trial, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    double sum = 0;
    for (std::int64_t c = 0; c < kDim; ++c) {
      const auto size = [&](const at::Tensor& of, std::int64_t n) {
        return std::log1p(std::exp(trial.of_head(of, h, n)[c].item<double>()));
      };
      const double frequency = std::pow(10000.0, -static_cast<double>(c) / kDim);
      sum += size(trial.q, i) * size(trial.k, j) *
             std::cos(static_cast<double>(j - i) * frequency +
                      trial.own.at("delta")[h][c].item<double>());
    }
    return kScale * sum;
  });
}

TEST(Forms, PopeKeepsItsPhasesInTheirRange) {
  const LayerTrial trial("pope");
  Parameters layer{{"delta", at::tensor({-7.0, -1.0, 0.5}, at::kDouble)}};
  trial.encoding->constrain(layer);
  EXPECT_TRUE(layer.at("delta").equal(at::tensor({-2 * std::numbers::pi, -1.0, 0.0}, at::kDouble)));
}

TEST(Forms, RepoTurnsByPositionsOfTheContent) {
  const LayerTrial trial("repo", {{"position_width", 5}});
  const auto place = [&](std::int64_t h, std::int64_t n) {
    const at::Tensor gate = at::matmul(trial.own.at("gate_proj.weight"), trial.token(n));
    const at::Tensor made = gate / (1 + (-gate).exp()) *
                            at::matmul(trial.own.at("content_proj.weight"), trial.token(n));
    return trial.own.at("position_proj.weight")[h].dot(made).item<double>();
  };
  expect_scores(trial, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    const at::Tensor angles = frequencies_of_planes() * (place(h, j) - place(h, i));
    return kScale * trial.of_head(trial.q, h, i)
                        .dot(turned_row(trial.of_head(trial.k, h, j), angles))
                        .item<double>();
  });
}

TEST(Forms, SelectiveRopeTurnsByWhatTheTokensBetweenSay) {
  const LayerTrial trial("selective_rope");
  expect_scores(trial, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    at::Tensor steps = at::zeros({kDim / 2}, at::kDouble);
    const auto rows = [&](const char* name) {
      return trial.own.at(name).slice(0, h * kDim / 2, (h + 1) * kDim / 2);
    };
    for (std::int64_t t = j + 1; t <= i; ++t) {
      const at::Tensor x = trial.token(t) / (trial.token(t).square().sum() + 1e-6).sqrt();
      steps += at::matmul(rows("angle_proj.weight"), x) + rows("angle_proj.bias").exp();
    }
    return kScale *
           trial.of_head(trial.q, h, i)
               .dot(turned_row(trial.of_head(trial.k, h, j), -steps * frequencies_of_planes()))
               .item<double>();
  });
}

// Without what the content adds to the angles it is RoPE.
TEST(Forms, SelectiveRopeStartsAsRope) {
  const LayerTrial rope("rope");
  LayerTrial trial("selective_rope");
  PositionState state;
  state.positions.length = kRows;
  Parameters start;
  for (const ParameterSpec& spec : trial.encoding->parameters()) {
    start[spec.name] = at::zeros(spec.shape, at::kDouble);
  }
  trial.encoding->read_hidden(start, trial.x, state);
  trial.program = trial.encoding->program(start, trial.q, trial.k, state);
  const Range all{0, kRows};
  EXPECT_LT(relative_error(plain_scores(trial.program, {0, kHeads}, all, all).tril().nan_to_num(),
                           plain_scores(rope.program, {0, kHeads}, all, all).tril().nan_to_num()),
            1e-13);
}

TEST(Forms, RelativeLogitsAddAProductWithTheDistancesRow) {
  const LayerTrial trial("relative_logits", {{"rank", 3}, {"extent", 5}});
  expect_scores(trial, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    const double content = trial.content(h, i, j);
    if (i - j >= 5) return content;
    const at::Tensor r =
        at::matmul(trial.own.at("r_proj.weight").slice(0, 3 * h, 3 * h + 3), trial.token(i));
    return content + r.dot(trial.own.at("proj").select(1, i - j)).item<double>();
  });
}

TEST(Forms, LiereTurnsByTheExponentialOfAPlace) {
  for (const std::int64_t columns : {0, 4}) {
    const LayerTrial trial("liere", {{"columns", columns}});
    const auto turn = [&](std::int64_t h, std::int64_t n) {
      const auto skew = [&](std::int64_t axis) {
        const at::Tensor a = trial.own.at("generator")[axis][h];
        return a - a.t();
      };
      if (columns == 0) return at::linalg_matrix_exp(static_cast<double>(n) * skew(0));
      return at::linalg_matrix_exp(static_cast<double>(n / columns) * skew(0) +
                                   static_cast<double>(n % columns) * skew(1));
    };
    expect_scores(trial, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
      return kScale * at::matmul(turn(h, i), trial.of_head(trial.q, h, i))
                          .dot(at::matmul(turn(h, j), trial.of_head(trial.k, h, j)))
                          .item<double>();
    });
  }
}

TEST(Forms, FopeAddsSeriesOfTheTrainedFrequencies) {
  // A context of 32 tokens: of 1, 0.22 and 0.05 those above 2 pi / 32.
  const LayerTrial trial("fope", {{"base", 100.0}});
  const at::Tensor frequencies =
      at::pow(100.0, -2 * at::arange(kDim / 2, at::kDouble) / static_cast<double>(kDim));
  constexpr std::int64_t kTrained = 2;
  ASSERT_EQ(trial.shared.at("cos_coef").size(1), kTrained);
  const auto placed = [&](const at::Tensor& of, std::int64_t h, std::int64_t n) {
    at::Tensor cosine = at::ones({kDim / 2}, at::kDouble), sine = at::zeros_like(cosine);
    for (std::int64_t m = 0; m < kTrained; ++m) {
      double c = 0, s = 0;
      for (std::int64_t l = 0; l < kTrained; ++l) {
        const double angle = static_cast<double>(n) * frequencies[l].item<double>();
        const double own = l == m ? 1 : 0;
        c += (own + trial.shared.at("cos_coef")[h][l][m].item<double>()) * std::cos(angle);
        s += (own + trial.shared.at("sin_coef")[h][l][m].item<double>()) * std::sin(angle);
      }
      cosine[m] = c, sine[m] = s;
    }
    const at::Tensor row = trial.of_head(of, h, n);
    const at::Tensor a = row.slice(0, 0, kDim / 2), b = row.slice(0, kDim / 2);
    return at::cat({a * cosine - b * sine, a * sine + b * cosine});
  };
  expect_scores(trial, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    return kScale * placed(trial.q, h, i).dot(placed(trial.k, h, j)).item<double>();
  });
}

TEST(Forms, FopeNeedsAPlaneThatTurnsOnce) {
  ModelConfig config = layer_config("fope", Json::object(), kHeads, kDim);
  config.context = 5;  // less than 2 pi tokens
  EXPECT_THROW(make_encoding(config), formats::Error);
}

TEST(Forms, RopeNopeTurnsNothingInItsLastLayersAndHeatsThem) {
  const Json options = {{"nope_every", 3}, {"temperature", 0.5}, {"temperature_length", 4.0}};
  const LayerTrial turning("rope_nope", options, 1), open("rope_nope", options, 2);
  expect_scores(turning, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    const at::Tensor angles = frequencies_of_planes() * static_cast<double>(j - i);
    return kScale * turning.of_head(turning.q, h, i)
                        .dot(turned_row(turning.of_head(turning.k, h, j), angles))
                        .item<double>();
  });
  expect_scores(open, [&](std::int64_t h, std::int64_t i, std::int64_t j) {
    return (1 + 0.5 * std::log1p(std::floor(static_cast<double>(i + 1) / 4))) *
           open.content(h, i, j);
  });
  EXPECT_FALSE(open.program.transformed);
}

// What the hidden state gives has no other distance to be read at.
TEST(Forms, MovedPairsAreRefused) {
  for (const char* key :
       {"fox", "repo", "selective_rope", "relative_logits", "path", "stick_breaking"}) {
    const ModelConfig config = layer_config(key, Json::object(), kHeads, kDim);
    EXPECT_FALSE(no_other_distance(config, *make_encoding(config)).empty()) << key;
  }
}

}  // namespace
}  // namespace phasescope::model
