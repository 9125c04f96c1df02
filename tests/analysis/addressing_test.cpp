// Addressing: shares of scores that are known, dense least squares, constructed heads.
#include "analysis/questions/addressing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/questions/by_distance.h"
#include "analysis/random.h"
#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using Score = std::function<double(std::int64_t i, std::int64_t j)>;

std::int64_t first_key(std::int64_t i, std::int64_t within) {
  return std::max<std::int64_t>(0, i - within + 1);
}

// By its definition, pair by pair.
ScoreMarginals marginals(std::int64_t n, std::int64_t within, const Score& score) {
  const auto size = static_cast<std::size_t>(n);
  ScoreMarginals m{n, within, std::vector<double>(size), std::vector<double>(size)};
  std::vector<double> means;
  double total = 0, pairs = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double keys = static_cast<double>(i + 1 - first_key(i, within));
    double sum = 0;
    for (std::int64_t j = first_key(i, within); j <= i; ++j) sum += score(i, j);
    means.push_back(sum / keys);
    total += sum, pairs += keys;
    for (std::int64_t j = first_key(i, within); j <= i; ++j) {
      const double e = score(i, j) - means.back();
      m.by_distance[static_cast<std::size_t>(i - j)] += e;
      m.by_key[static_cast<std::size_t>(j)] += e;
      m.square += e * e, m.raw_square += score(i, j) * score(i, j);
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double off = means[static_cast<std::size_t>(i)] - total / pairs;
    m.between_rows += static_cast<double>(i + 1 - first_key(i, within)) * off * off;
  }
  return m;
}

// What the columns of `effects` fit of y: |Q^T y|^2 of their range.
double dense_fit(const at::Tensor& effects, const at::Tensor& y) {
  const at::Tensor solution = at::matmul(at::linalg_pinv(effects, 1e-12), y);
  return at::matmul(effects, solution).square().sum().item<double>();
}

AddressingSums dense_sums(std::int64_t n, std::int64_t within, const Score& score) {
  std::vector<std::vector<std::int64_t>> pairs;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = first_key(i, within); j <= i; ++j) pairs.push_back({i, j});
  }
  const auto count = static_cast<std::int64_t>(pairs.size());
  at::Tensor row = at::zeros({count, n}, at::kDouble), distance = at::zeros_like(row),
             key = at::zeros_like(row), y = at::zeros({count}, at::kDouble);
  for (std::int64_t p = 0; p < count; ++p) {
    const std::int64_t i = pairs[static_cast<std::size_t>(p)][0],
                       j = pairs[static_cast<std::size_t>(p)][1];
    row[p][i] = 1, distance[p][i - j] = 1, key[p][j] = 1, y[p] = score(i, j);
  }
  const double rows = dense_fit(row, y), all = y.square().sum().item<double>();
  return {all - rows, dense_fit(at::cat({row, distance}, 1), y) - rows,
          dense_fit(at::cat({row, key}, 1), y) - rows,
          dense_fit(at::cat({row, distance, key}, 1), y) - rows};
}

Score random_score(std::uint64_t seed, std::int64_t n) {
  Random random(seed);
  std::vector<double> values;
  for (std::int64_t k = 0; k < n * n; ++k) values.push_back(random.uniform() - 0.5);
  return
      [=](std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * n + j)]; };
}

// Sums of squares of order 1 over some hundred pairs: 1e-12 is some thousand roundings.
void expect_equal(const AddressingSums& a, const AddressingSums& b, double tolerance = 1e-12) {
  const double scale = std::max(1.0, b.within);
  EXPECT_NEAR(a.within, b.within, tolerance * scale);
  EXPECT_NEAR(a.distance_first, b.distance_first, tolerance * scale);
  EXPECT_NEAR(a.key_first, b.key_first, tolerance * scale);
  EXPECT_NEAR(a.both, b.both, tolerance * scale);
}

TEST(Addressing, EqualsDenseLeastSquares) {
  for (const std::int64_t within : {16, 5, 2}) {
    const Score score = random_score(7, 16);
    expect_equal(addressing_sums(marginals(16, within, score)), dense_sums(16, within, score));
  }
}

TEST(Addressing, RowConstantsOfAnySizeChangeNothingWithinRows) {
  const Score score = random_score(3, 32);
  const auto plain = addressing_sums(marginals(32, 32, score));
  const Score moved = [&](std::int64_t i, std::int64_t j) {
    return 3 * score(i, j) + 2 + 1000 * std::sin(static_cast<double>(i));
  };
  AddressingSums larger = addressing_sums(marginals(32, 32, moved));
  for (double* sum : {&larger.within, &larger.distance_first, &larger.key_first, &larger.both}) {
    *sum /= 9;
  }
  // The constants' 1000 takes three digits and more of a float64 score of size 1.
  expect_equal(larger, plain, 1e-10);
  EXPECT_GT(marginals(32, 32, moved).between_rows, 1000 * marginals(32, 32, score).between_rows);
}

struct Shares {
  double distance_first, distance_last, key_first, key_last, interaction;
};
Shares shares_of(std::int64_t n, const Score& score) {
  const AddressingSums s = addressing_sums(marginals(n, n, score));
  return {s.distance_first / s.within, (s.both - s.key_first) / s.within, s.key_first / s.within,
          (s.both - s.distance_first) / s.within, 1 - s.both / s.within};
}

TEST(Addressing, ALinearBiasIsATrendThatEitherCouldHave) {
  const Shares s = shares_of(64, [](auto i, auto j) { return -0.3 * static_cast<double>(i - j); });
  EXPECT_NEAR(s.distance_first, 1, 1e-12);
  EXPECT_NEAR(s.distance_last, 0, 1e-12);
  EXPECT_NEAR(s.key_first, 1, 1e-12);
}

TEST(Addressing, ALogarithmOfTheDistanceIsPartlyItsOwn) {
  const Shares s =
      shares_of(64, [](auto i, auto j) { return -std::log1p(static_cast<double>(i - j)); });
  EXPECT_NEAR(s.distance_first, 1, 1e-12);
  EXPECT_NEAR(s.interaction, 0, 1e-12);
  EXPECT_GT(s.distance_last, 0.01);
  EXPECT_LT(s.distance_last, 0.99);
}

TEST(Addressing, KeysAlone) {
  const Shares s = shares_of(64, [](auto, auto j) { return j == 0 ? 5.0 : 0.0; });
  EXPECT_NEAR(s.key_first, 1, 1e-12);
  EXPECT_NEAR(s.interaction, 0, 1e-12);
  EXPECT_LT(s.key_last, 1);
  EXPECT_GT(s.key_last, 1 - std::log(64.0) / 8);  // 1 less O(ln N / N)
}

// Scores without structure read df / (n - N) on average.
TEST(Addressing, NoiseReadsTheFloors) {
  const std::int64_t n = 24, draws = 200;
  const double pairs = n * (n + 1) / 2.0, free = pairs - n;
  double distance = 0, key = 0, squares = 0;
  for (std::int64_t seed = 0; seed < draws; ++seed) {
    const Shares s = shares_of(n, random_score(static_cast<std::uint64_t>(seed), n));
    distance += s.distance_first / draws, key += s.key_last / draws;
    squares += s.distance_first * s.distance_first / draws;
  }
  const double error = std::sqrt((squares - distance * distance) / draws);
  EXPECT_NEAR(distance, (n - 1) / free, 4 * error);
  EXPECT_NEAR(key, (n - 2) / free, 4 * error);
}

// Of texts of so many different tokens behind [BOS].
protocol::AddressingResult of_model(const std::string& name, std::int64_t tokens,
                                    std::int64_t different = 255) {
  const auto model = model::open_model(name, {.dtype = at::kDouble});
  testing::Passes passes;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Random random(seed);
    std::vector<std::int64_t> ids{0};
    while (static_cast<std::int64_t>(ids.size()) < tokens) {
      ids.push_back(1 + random.below(different));
    }
    passes.push_back(
        std::make_shared<TextPass>(model, ids_tensor(ids), model::ForwardOptions{}, 0));
  }
  protocol::NoProgress progress;
  return analyse_addressing(passes, {}, progress);
}

TEST(Addressing, ConstructedHeadsReadWhatTheyAre) {
  const auto uniform = of_model("proof-uniform", 48);
  EXPECT_FALSE(uniform.rows[0].distance_first);
  EXPECT_EQ(uniform.rows[0].why, "the scores of this head do not vary within a row");

  const auto distance = of_model("proof-distance7", 48).rows[0];
  EXPECT_NEAR(distance.distance_first->mean, 1, 1e-12);
  EXPECT_NEAR(distance.interaction->mean, 0, 1e-12);

  const auto rotated = of_model("proof-previous", 48).rows[0];
  EXPECT_NEAR(rotated.distance_first->mean, 1, 1e-10);

  const auto sink = of_model("proof-sink", 48).rows[0];
  EXPECT_NEAR(sink.key_first->mean, 1, 1e-10);
  EXPECT_NEAR(sink.interaction->mean, 0, 1e-10);

  // Every token equals itself at distance 0; of four tokens one in four equals another one.
  const auto pair = of_model("proof-duplicate", 48, 4).rows[0];
  EXPECT_GT(pair.interaction->mean, 0.5);
  EXPECT_EQ(pair.distance_first->n, 3);
}

TEST(Addressing, SharesAddUpToOne) {
  const auto row = of_model("proof-duplicate", 40, 4).rows[0];
  EXPECT_NEAR(
      row.distance_last->mean + row.key_last->mean + row.trend->mean + row.interaction->mean, 1,
      1e-12);
  EXPECT_NEAR(row.distance_first->mean + row.key_last->mean + row.interaction->mean, 1, 1e-12);
}

// Of relative positions where the text begins says nothing: the angles of ids 1000 higher are the
// same to some 1000 * 2^-53, and so are the scores.
TEST(Addressing, ShiftedIdsReadTheSame) {
  for (const char* encoding : {"rope", "alibi", "tape"}) {
    const auto model = model::in_dtype(testing::small_model(encoding), at::kDouble);
    std::vector<protocol::AddressingResult> results;
    for (const std::int64_t shift : {0, 1000}) {
      model::ForwardOptions options;
      options.shift = shift;
      testing::Passes passes;
      for (const Text& text : random_texts(2, 24, 32, 5).items) {
        passes.push_back(std::make_shared<TextPass>(model, ids_tensor(text.ids), options, 0));
      }
      protocol::NoProgress progress;
      results.push_back(analyse_addressing(passes, {}, progress));
    }
    for (std::size_t n = 0; n < results[0].rows.size(); ++n) {
      const protocol::AddressingRow &here = results[0].rows[n], &there = results[1].rows[n];
      EXPECT_NEAR(here.distance_first->mean, there.distance_first->mean, 1e-10) << encoding;
      EXPECT_NEAR(here.key_last->mean, there.key_last->mean, 1e-10) << encoding;
      EXPECT_NEAR(here.query->mean, there.query->mean, 1e-10) << encoding;
    }
  }
}

// Without positions and with one token again and again there is nothing to address by; a linear
// bias on top of that is a trend that either distance or the key could have.
TEST(Addressing, OfOneTokenAlone) {
  for (const char* encoding : {"none", "alibi"}) {
    const auto model = model::in_dtype(testing::small_model(encoding), at::kDouble);
    const std::vector<std::int64_t> ids(24, 7);
    const auto pass =
        std::make_shared<TextPass>(model, ids_tensor(ids), model::ForwardOptions{}, 0);
    protocol::NoProgress progress;
    const auto row = analyse_addressing({pass}, {}, progress).rows[0];
    EXPECT_EQ(row.distance_first.has_value(), std::string(encoding) == "alibi");
    if (!row.distance_first) continue;
    EXPECT_NEAR(row.distance_first->mean, 1, 1e-10);
    EXPECT_NEAR(row.key_first->mean, 1, 1e-10);
    EXPECT_NEAR(row.distance_last->mean, 0, 1e-10);
  }
}

// One pair, and three: less than what rows, distances and keys take alone.
TEST(Addressing, Row20_TextsWithoutRoomHaveNoFloor) {
  for (const std::int64_t tokens : {1, 2}) {
    for (const protocol::AddressingRow& row : of_model("proof-sink", tokens).rows) {
      EXPECT_EQ(row.floor.distance.has_value(), tokens == 2) << tokens;
      EXPECT_EQ(row.floor.key.has_value(), tokens == 2) << tokens;
    }
  }
}

// Blocks of rows give the marginals that every pair on its own gives.
TEST(Addressing, MarginalsOfAModelEqualTheirDefinition) {
  const auto model = model::in_dtype(testing::small_model("rope"), at::kDouble);
  const auto pass = testing::passes_for(model, 1, 24)[0];
  const AttentionPointer attention = pass->layer(1);
  const at::Tensor scores = attention->scores(attention->whole()).score[0];
  const Score score = [&](std::int64_t i, std::int64_t j) {
    return scores[1][i][j].item<double>();
  };
  for (const std::int64_t within : {24, 6}) {
    AddressingOptions options;
    options.within = within;
    const ScoreMarginals found = marginals_of(*attention, options)[1];
    expect_equal(addressing_sums(found), dense_sums(24, within, score));
    EXPECT_NEAR(found.between_rows, marginals(24, within, score).between_rows, 1e-12);
  }
}

// Sums of float32 scores of order ten, less their rows' means: six digits of a share, of every kind
// of score, of some distances alone and of the content.
TEST(Addressing, FusedEqualsFloat64) {
  for (const char* encoding : {"none", "rope", "alibi", "tapa", "tape", "cape", "fire"}) {
    const auto narrow = testing::small_model(encoding, 3);
    const auto wide = model::in_dtype(narrow, at::kDouble);
    const auto of_float = testing::passes_for(narrow, 1, 70)[0]->layer(1);
    const auto of_double = testing::passes_for(wide, 1, 70)[0]->layer(1);
    ASSERT_TRUE(of_float->is_fused()) << encoding;
    for (const std::int64_t within : {0, 9}) {
      for (const bool content : {false, true}) {
        AddressingOptions options;
        options.within = within, options.content = content;
        const auto found = marginals_of(*of_float, options),
                   exact = marginals_of(*of_double, options);
        for (std::size_t h = 0; h < exact.size(); ++h) {
          expect_equal(addressing_sums(found[h]), addressing_sums(exact[h]), 1e-4);
          EXPECT_NEAR(found[h].between_rows, exact[h].between_rows,
                      1e-4 * std::max(1.0, exact[h].between_rows));
          EXPECT_NEAR(found[h].raw_square, exact[h].raw_square,
                      1e-4 * std::max(1.0, exact[h].raw_square));
        }
      }
    }
  }
}

TEST(Addressing, RefusesEncoders) {
  model::ModelConfig config = testing::small_config("none");
  config.attention.causal = false;
  const auto pass = testing::passes_for(model::random_model(config, 1), 1)[0];
  protocol::NoProgress progress;
  EXPECT_THROW(analyse_addressing({pass}, {}, progress), formats::Error);
}

// Diagonal sums, whatever rows a block begins with.
TEST(ByDistance, AddsUpDiagonals) {
  const at::Tensor square = at::arange(35, at::kDouble).view({1, 5, 7}).tril(2);
  at::Tensor sums = at::zeros({1, 7}, at::kDouble);
  add_by_distance(square, 2, sums);  // rows 2..6
  for (std::int64_t lambda = 0; lambda < 7; ++lambda) {
    double expected = 0;
    for (std::int64_t i = 2; i < 7; ++i) {
      if (i >= lambda) expected += square[0][i - 2][i - lambda].item<double>();
    }
    EXPECT_EQ(sums[0][lambda].item<double>(), expected) << lambda;
  }
}

}  // namespace
}  // namespace phasescope::analysis
