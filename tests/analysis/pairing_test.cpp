// Heads beside heads: the cheapest pairing against every permutation, matches of a model with its
// heads in another order, two texts through heads that read positions alone, and what `heads` says
// over texts against sums made here.
#include "analysis/pairing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "analysis/compare.h"
#include "analysis/divergence.h"
#include "analysis/heads.h"
#include "analysis/intervals/intervals.h"
#include "analysis/metrics/registry.h"
#include "analysis/metrics/repeated.h"
#include "analysis/random.h"
#include "formats/error.h"
#include "text_passes.h"

namespace phasescope::analysis {
namespace {

using testing::ModelPointer;
using testing::Passes;
using testing::passes_for;
using testing::small_model;
using testing::weights_of;

TEST(Pairing, IsTheCheapestOfAll) {
  Random random(5);
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {4, 4}, {3, 6}, {6, 3}, {5, 5}, {1, 7}}) {
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<double> costs;
      for (std::int64_t n = 0; n < rows * columns; ++n) costs.push_back(random.normal());
      const auto pairs = cheapest_pairs(costs, rows, columns);
      ASSERT_EQ(static_cast<std::int64_t>(pairs.size()), std::min(rows, columns));
      double sum = 0;
      std::vector<bool> row(static_cast<std::size_t>(rows)),
          column(static_cast<std::size_t>(columns));
      for (const auto& [r, c] : pairs) {
        EXPECT_FALSE(row[static_cast<std::size_t>(r)] || column[static_cast<std::size_t>(c)]);
        row[static_cast<std::size_t>(r)] = column[static_cast<std::size_t>(c)] = true;
        sum += costs[static_cast<std::size_t>(r * columns + c)];
      }
      // Every way of giving the larger side's places to the smaller one.
      std::vector<std::int64_t> order(static_cast<std::size_t>(std::max(rows, columns)));
      std::iota(order.begin(), order.end(), 0);
      double cheapest = std::numeric_limits<double>::infinity();
      do {
        double here = 0;
        for (std::int64_t n = 0; n < std::min(rows, columns); ++n) {
          const std::int64_t other = order[static_cast<std::size_t>(n)];
          here += costs[static_cast<std::size_t>(rows <= columns ? n * columns + other
                                                                 : other * columns + n)];
        }
        cheapest = std::min(cheapest, here);
      } while (std::ranges::next_permutation(order).found);
      EXPECT_NEAR(sum, cheapest, 1e-12) << rows << " x " << columns;
    }
  }
}

// Layer 0's two heads of 8 channels change places; what they write together stays.
ModelPointer with_heads_turned(const ModelPointer& model) {
  model::Weights weights = model->decoder.weights();
  model::LayerWeights& layer = weights.layers[0];
  for (at::Tensor* rows : {&layer.wq, &layer.wk, &layer.wv}) *rows = rows->roll(8, 0);
  layer.wo = layer.wo.roll(8, 1);
  return model::model_of(model->config(), weights, "turned");
}

TEST(Compare, MatchesHeadsInAnotherOrder) {
  const auto model = small_model("rope");
  const auto turned = with_heads_turned(model);
  protocol::NoProgress progress;
  at::Tensor between;
  const auto result = analyse_compare(passes_for(model, 4, 30), passes_for(turned, 4, 30), progress,
                                      {.match = true}, &between);
  ASSERT_EQ(result.matches.size(), 4u);
  const std::vector<std::array<std::int64_t, 4>> expected = {
      {0, 0, 0, 1}, {0, 1, 0, 0}, {1, 0, 1, 0}, {1, 1, 1, 1}};
  for (std::size_t n = 0; n < 4; ++n) {
    const protocol::HeadMatch& match = result.matches[n];
    EXPECT_EQ((std::array{match.layer, match.head, match.other_layer, match.other_head}),
              expected[n]);
    EXPECT_NEAR(match.js_divergence.mean, 0, 1e-6);
    EXPECT_EQ(match.js_divergence.n, 2);  // texts 1 and 3
  }
  EXPECT_EQ(between.sizes(), (at::IntArrayRef{4, 4}));
  EXPECT_GT(between[0][0].item<double>(), 1e-4);
}

TEST(Compare, TheMatrixBetweenIsThatOfExplicitRows) {
  const auto a = small_model("rope"), b = small_model("alibi", 3);
  const Passes first = passes_for(a, 1, 25), second = passes_for(b, 1, 25);
  protocol::NoProgress progress;
  at::Tensor between;
  analyse_compare(first, second, progress, {.match = true}, &between);
  const auto x = to_vector<double>(weights_of(*first[0], 1)[0]);
  const auto y = to_vector<double>(weights_of(*second[0], 0)[1]);
  double expected = 0;
  for (std::size_t q = 0; q < 25; ++q) {
    const std::span<const double> p(x), r(y);
    expected += js_divergence(p.subspan(q * 25, 25), r.subspan(q * 25, 25)) / 25;
  }
  EXPECT_NEAR(between[2][1].item<double>(), expected, 1e-6);
}

TEST(Compare, TwoTextsThroughHeadsThatReadPositionsAlone) {
  protocol::NoProgress progress;
  const auto read = [&](const char* name) {
    const auto model = model::open_model(name, {.dtype = at::kDouble});
    Passes passes;
    for (const std::uint64_t seed : {1u, 2u}) {
      passes.push_back(std::make_shared<TextPass>(
          model, ids_tensor(random_texts(1, 70, 200, seed).items[0].ids)));
    }
    return analyse_compare({passes[0]}, {passes[1]}, progress).heads[0].js_divergence;
  };
  EXPECT_NEAR(read("proof-distance7"), 0, 1e-12);
  EXPECT_GT(read("proof-duplicate"), 0.01);
}

TEST(Compare, BlocksByPositionArePaired) {
  const auto a = small_model("rope"), b = small_model("alibi");
  const Passes first = passes_for(a, 3, 40), second = passes_for(b, 3, 40);
  protocol::NoProgress progress;
  const auto result = analyse_compare(first, second, progress);
  ASSERT_FALSE(result.positions.empty());
  std::vector<Part> parts;
  for (std::size_t t = 0; t < 3; ++t) {
    const at::Tensor change = (second[t]->losses() - first[t]->losses())[0].to(at::kDouble);
    parts.push_back({change.slice(0, 2, 4).sum().item<double>(), 2});
  }
  const Interval want = ratio_interval(parts, Draws());
  EXPECT_EQ(result.positions[1].begin, 2);
  EXPECT_EQ(result.positions[1].end, 4);
  EXPECT_NEAR(result.positions[1].change.mean, want.mean, 1e-6);
  EXPECT_NEAR(*result.positions[1].change.low, *want.low, 1e-6);
}

// ---- heads over texts ---------------------------------------------------------------------------

TEST(Heads, ChosenWindows) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"window_mass"};
  options.windows = {9, 2};
  const Passes passes = passes_for(model, 1, 30);
  const auto out = analyse_heads(passes, options, progress);
  const at::Tensor weights = weights_of(*passes[0], 1)[1].to(at::kDouble);
  for (const std::int64_t window : {2, 9}) {
    double sum = 0;
    for (std::int64_t q = 0; q < 30; ++q) {
      sum += weights[q]
                 .slice(0, std::max<std::int64_t>(0, q + 1 - window), q + 1)
                 .sum()
                 .item<double>();
    }
    const auto& values = out.result.rows[3].values;
    EXPECT_NEAR(values.at("window_mass_" + std::to_string(window)).mean, sum / 30, 1e-6);
  }
  EXPECT_EQ(out.result.rows[3].values.size(), 2u);
  for (const std::vector<std::int64_t>& bad :
       std::vector<std::vector<std::int64_t>>{{0}, {4, 4}, {1, 2, 3, 4}}) {
    options.windows = bad;
    EXPECT_THROW(analyse_heads(passes, options, progress), formats::Error);
  }
}

TEST(Heads, DrawsAreMeansWithTheirInterval) {
  const auto model = small_model("alibi");
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"induction", "induction_loss"};
  options.period = 10, options.draws = 12, options.seed = 4;
  const auto out = analyse_heads(passes_for(model, 1, 20), options, progress).result;
  std::vector<double> scores, losses;
  for (std::uint64_t draw = 0; draw < 12; ++draw) {
    TextPass pass(model, ids_tensor(repeated_tokens(10, {}, 32, 4 + draw)));
    const at::Tensor map = weights_of(pass, 1)[0].to(at::kDouble);
    double sum = 0;
    for (std::int64_t q = 10; q < 20; ++q) sum += map[q][q - 9].item<double>() / 10;
    scores.push_back(sum);
    losses.push_back(pass.losses().slice(1, 9).mean().item<double>());
  }
  const Interval induction = mean_interval(scores, Draws(4)),
                 loss = mean_interval(losses, Draws(4));
  // As a client reads it: a number in the row, its interval beside it.
  const auto json = protocol::to_json_form(out);
  EXPECT_TRUE(json["rows"][2]["induction"].is_number());
  const auto read = protocol::from_json_form<protocol::HeadsResult>(json);
  const Interval& got = read.rows[2].values.at("induction");
  EXPECT_NEAR(got.mean, induction.mean, 1e-6);
  EXPECT_NEAR(*got.low, *induction.low, 1e-6);
  EXPECT_NEAR(*got.high, *induction.high, 1e-6);
  EXPECT_EQ(words_of(got), "Student t, n = 12 draws");
  EXPECT_NEAR(*read.model_values.at("induction_loss").high, *loss.high, 1e-5);
}

TEST(Heads, ProfilesHaveIntervalsOverTexts) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"distance_profile"};
  Passes passes;
  for (const std::int64_t length : {40, 25, 33}) {
    passes.push_back(passes_for(model, 1, length)[0]);
  }
  const auto out = analyse_heads(passes, options, progress);
  const protocol::DistanceProfile& profile = *out.result.rows[1].distance_profile;
  // 0..16 one by one, then wider; together every distance once.
  std::int64_t next = 0;
  for (const protocol::ProfileBand& band : profile.bands) {
    EXPECT_EQ(band.begin, next);
    EXPECT_TRUE(band.begin >= 17 || band.end == band.begin + 1);
    next = band.end;
    std::vector<Part> parts;
    for (const auto& pass : passes) {
      const at::Tensor weights = weights_of(*pass, 0)[1].to(at::kDouble);
      Part part;
      for (std::int64_t d = band.begin; d < std::min(band.end, pass->tokens()); ++d) {
        part.sum += weights.diagonal(-d).sum().item<double>();
        part.weight += static_cast<double>(pass->tokens() - d);
      }
      if (part.weight > 0) parts.push_back(part);
    }
    const Interval want = bounded(kShare, ratio_interval(parts, Draws()));
    EXPECT_NEAR(band.weight.mean, want.mean, 1e-6);
    EXPECT_EQ(band.weight.n, want.n);
    ASSERT_EQ(band.weight.low.has_value(), want.low.has_value());
    if (want.low) {
      EXPECT_NEAR(*band.weight.low, *want.low, 1e-5);
    }
  }
  EXPECT_EQ(next, 40);
}

TEST(Heads, DivergencesAreOverTexts) {
  const auto model = small_model("rope");
  protocol::NoProgress progress;
  HeadsOptions options;
  options.metrics = {"js_divergence"};
  const Passes passes = passes_for(model, 3, 20);
  const auto out = analyse_heads(passes, options, progress);
  std::vector<double> pair, of_head;
  for (const auto& pass : passes) {
    const at::Tensor matrix = divergence_within(*pass);
    pair.push_back(matrix[1][2].item<double>());
    of_head.push_back(matrix[1].sum().item<double>() / 3);
  }
  const Interval want = mean_interval(pair, Draws()), head = mean_interval(of_head, Draws());
  const auto at = [&](const char* name) {
    return protocol::find_tensor(out.tensors, name)->values<double>()[1 * 4 + 2];
  };
  EXPECT_NEAR(at("js_divergence"), want.mean, 1e-12);
  EXPECT_NEAR(at("js_divergence_low"), *want.low, 1e-12);
  EXPECT_NEAR(at("js_divergence_high"), *want.high, 1e-12);
  const Interval& got = out.result.rows[1].values.at("js_divergence");
  EXPECT_NEAR(got.mean, head.mean, 1e-12);
  EXPECT_NEAR(*got.low, *head.low, 1e-12);
  EXPECT_EQ(got.n, 3);
}

}  // namespace
}  // namespace phasescope::analysis
