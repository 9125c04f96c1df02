// Regions and maps against the reference's full matrices.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/targets.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/true_score_sums.h"

namespace phasescope::kernels::testing {
namespace {

/// Cell of a map by its definition.
float cell_truth(const Reference<double>& ref, const Region& region, const MapOutputs& map,
                 std::int64_t head, std::int64_t y, std::int64_t x, int stat) {
  const auto span = [](std::int64_t begin, std::int64_t end, std::int64_t cells, std::int64_t n) {
    const std::int64_t first = begin + n * (end - begin) / cells;
    return std::pair{first, std::max(first + 1, begin + (n + 1) * (end - begin) / cells)};
  };
  const auto [r0, r1] = span(region.row_begin, region.row_end, map.height, y);
  const auto [c0, c1] = span(region.col_begin, region.col_end, map.width, x);
  double sum = 0, best = -std::numeric_limits<double>::infinity(), seen = 0;
  for (std::int64_t i = r0; i < r1; ++i) {
    for (std::int64_t j = c0; j < c1; ++j) {
      const auto at = static_cast<std::size_t>(ref.at(region.batch, head, i, j));
      if (std::isinf(ref.score[at])) continue;
      const double value = map.quantity == MapQuantity::weight ? ref.weight[at] : ref.score[at];
      sum += value;
      best = std::max(best, value);
      seen += 1;
    }
  }
  const double pairs = static_cast<double>((r1 - r0) * (c1 - c0));
  if (stat == 2) return static_cast<float>(seen / pairs);
  if (seen == 0) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(stat == 1 ? best
                                      : sum / (map.quantity == MapQuantity::weight ? pairs : seen));
}

class EveryRegion : public ::testing::TestWithParam<Kind> {};

void expect_map(Case& c, const Reference<double>& truth, const Region& region, MapOutputs map) {
  const auto cells = static_cast<std::size_t>(region.head_count * map.height * map.width);
  std::vector<float> mean(cells), maximum(cells), share(cells);
  map.mean = mean.data();
  map.maximum = maximum.data();
  map.share = share.data();
  attention_map(c.inputs, c.lse.data(), region, map);
  for (std::size_t n = 0; n < cells; ++n) {
    const auto at = static_cast<std::int64_t>(n);
    const std::int64_t head = region.head_begin + at / (map.height * map.width);
    const std::int64_t y = at / map.width % map.height, x = at % map.width;
    const float want[3] = {cell_truth(truth, region, map, head, y, x, 0),
                           cell_truth(truth, region, map, head, y, x, 1),
                           cell_truth(truth, region, map, head, y, x, 2)};
    const float got[3] = {mean[n], maximum[n], share[n]};
    for (int stat = 0; stat < 3; ++stat) {
      if (std::isinf(want[stat])) {
        ASSERT_EQ(got[stat], want[stat]) << stat << " " << y << " " << x;
      } else {
        ASSERT_NEAR(got[stat], want[stat], 2e-5) << stat;
      }
    }
  }
}

TEST_P(EveryRegion, EqualsTheReference) {
  Problem problem{GetParam()};
  problem.shape = {2, 4, 2, 150, 170, 16};
  problem.shape.query_offset = 20;
  for (const bool causal : {true, false}) {
    problem.shape.causal = causal;
    Case c(problem);
    c.forward();
    Reference<double> truth(c.inputs);
    const Region region{1, 1, 2, 31, 131, 17, 160};
    std::vector<float> scores(2 * 100 * 143), weights(scores.size());
    attention_region(c.inputs, c.lse.data(), region, scores.data(), weights.data());
    for (std::size_t n = 0; n < scores.size(); ++n) {
      const auto at = static_cast<std::int64_t>(n);
      const auto from =
          static_cast<std::size_t>(truth.at(1, 1 + at / 14300, 31 + at / 143 % 100, 17 + at % 143));
      if (std::isinf(truth.score[from])) {
        ASSERT_EQ(scores[n], -std::numeric_limits<float>::infinity());
        ASSERT_EQ(weights[n], 0.0f);
      } else {
        ASSERT_NEAR(scores[n], truth.score[from], 2e-5);
        ASSERT_NEAR(weights[n], truth.weight[from], 1e-5);
      }
    }
    MapOutputs map;
    for (const MapQuantity quantity : {MapQuantity::weight, MapQuantity::score}) {
      map.quantity = quantity;
      map.height = 7;  // many rows a cell
      map.width = 9;
      expect_map(c, truth, region, map);
      map.height = 64;  // cells of one and two rows
      map.width = 143;
      expect_map(c, truth, region, map);
      map.height = 130;  // more cells than rows and columns
      map.width = 301;
      expect_map(c, truth, region, map);
    }
  }
}

/// Of every row, column, distance and head, with and without a shift of each row.
void expect_score_sums(const Case& c, const Reference<double>& truth, bool shifted) {
  const AttentionShape& s = c.inputs.shape;
  constexpr std::int64_t kLength = 100;  // some distances are farther
  const auto sized = [&](std::int64_t count) {
    return std::vector<double>(static_cast<std::size_t>(s.batch * s.heads * count));
  };
  auto shift = sized(s.queries), row = shift, column = sized(s.keys), distance = sized(kLength),
       square = sized(1);
  std::vector<std::int64_t> pairs(row.size(), 7);
  for (std::size_t n = 0; n < shift.size() && shifted; ++n) {
    shift[n] = 30 * std::sin(static_cast<double>(n));
  }
  row[0] = column[0] = distance[0] = square[0] = 5;  // overwritten
  attention_score_sums(c.inputs, {shifted ? shift.data() : nullptr, row.data(), pairs.data(),
                                  column.data(), distance.data(), kLength, square.data()});
  const TrueScoreSums want(truth, shift, kLength);
  EXPECT_EQ(pairs, want.pairs);
  // A score is right to 2e-5 (EqualsTheReference); sums of a block are float32, of up to 64
  // numbers.
  const double each = 2e-5 + (shifted ? 64 * 30 * 0x1p-24 : 0);
  const auto compare = [&](const auto& got, const auto& expected, double most) {
    for (std::size_t n = 0; n < got.size(); ++n) ASSERT_NEAR(got[n], expected[n], most * each) << n;
  };
  compare(row, want.row, 170);
  compare(column, want.column, 150);
  compare(distance, want.distance, 2 * 150);
  compare(square, want.square, 150 * 170 * (shifted ? 30 : 1));
}

TEST_P(EveryRegion, SumsScoresByRowColumnAndDistance) {
  Problem problem{GetParam()};
  problem.shape = {2, 4, 2, 150, 170, 16};
  problem.shape.query_offset = 20;
  for (const bool causal : {true, false}) {
    problem.shape.causal = causal;
    const Case c(problem);
    const Reference<double> truth(c.inputs);
    expect_score_sums(c, truth, false);
    expect_score_sums(c, truth, true);
  }
  problem.padding = Padding::holes;
  problem.shape.window = 60;
  problem.soft_cap = 5;
  const Case masked(problem);
  expect_score_sums(masked, Reference<double>(masked.inputs), false);
}

TEST_P(EveryRegion, SumsScoresAlikeForAnyNumberOfThreads) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 700, 700, 8};
  const Case c(problem);
  const int most = omp_get_max_threads();
  std::vector<std::vector<double>> all;
  for (const int threads : {1, 3, 4}) {
    omp_set_num_threads(threads);
    std::vector<double> sums(2 * (700 + 700 + 700 + 1));
    double* at = sums.data();
    attention_score_sums(c.inputs, {nullptr, at, nullptr, at + 1400, at + 2800, 700, at + 4200});
    all.push_back(sums);
  }
  omp_set_num_threads(most);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

/// Of the second text, 100 x 143 pairs, weights and scores.
void expect_part_of_map(const Problem& problem) {
  Case c(problem);
  c.forward();
  const Reference<double> truth(c.inputs);
  MapOutputs map;
  map.height = 33;
  map.width = 143;
  expect_map(c, truth, {1, 0, 2, 31, 131, 17, 160}, map);
  map.quantity = MapQuantity::score;
  expect_map(c, truth, {1, 0, 2, 31, 131, 17, 160}, map);
}

TEST_P(EveryRegion, EqualsTheReferenceWithDocuments) {
  for (const Documents documents : {Documents::packed, Documents::in_turn, Documents::mixed}) {
    Problem problem{GetParam()};
    problem.shape = {2, 2, 2, 150, 170, 16};
    problem.shape.query_offset = 20;
    problem.shape.causal = documents == Documents::packed;
    problem.documents = documents;
    expect_part_of_map(problem);
  }
}

TEST_P(EveryRegion, EqualsTheReferenceWithWindowPaddingAndCap) {
  Problem problem{GetParam()};
  problem.shape = {2, 2, 2, 150, 170, 16};
  problem.shape.query_offset = 20;
  problem.shape.window = 50;
  problem.padding = Padding::holes;
  problem.soft_cap = 2;
  for (const bool causal : {true, false}) {
    problem.shape.causal = causal;
    expect_part_of_map(problem);
  }
}

TEST_P(EveryRegion, EqualsTheReferenceWithSinks) {
  Problem problem{GetParam()};
  problem.shape = {2, 2, 2, 150, 170, 16};
  problem.shape.query_offset = 20;
  problem.sinks = Sinks::large;
  expect_part_of_map(problem);
}

// Column sums, the weight each key gets from all queries: the mean map of one row of cells.
TEST_P(EveryRegion, HasColumnSums) {
  Problem problem{GetParam()};
  constexpr std::int64_t kQueries = 300;  // several panels
  problem.shape = {1, 2, 1, kQueries, 0, 16};
  // Two work items of columns, whose last keys no query sees; queries before the first key.
  for (const auto& [keys, offset] :
       {std::pair<std::int64_t, std::int64_t>{1100, 780}, {290, -30}}) {
    problem.shape.keys = keys;
    problem.shape.query_offset = offset;
    Case c(problem);
    c.forward();
    const Reference<double> truth(c.inputs);
    const Reference<float> plain(c.inputs);
    std::vector<float> mean(static_cast<std::size_t>(2 * keys));
    MapOutputs map;
    map.height = 1;
    map.width = keys;
    map.mean = mean.data();
    attention_map(c.inputs, c.lse.data(), {0, 0, 2, 0, kQueries, 0, keys}, map);
    for (std::int64_t n = 0; n < 2 * keys; ++n) {
      double want = 0, error = 0, seen = 0;
      for (std::int64_t i = 0; i < kQueries; ++i) {
        const auto at = static_cast<std::size_t>(truth.at(0, n / keys, i, n % keys));
        want += truth.weight[at];
        error += std::abs(static_cast<double>(plain.weight[at]) - truth.weight[at]);
        seen += !std::isinf(truth.score[at]);
      }
      const float got = mean[static_cast<std::size_t>(n)];
      if (seen == 0) {
        EXPECT_EQ(got, -std::numeric_limits<float>::infinity()) << n;
      } else {
        // Each weight as exact as the plain operation's, summed in float64, and one rounding.
        EXPECT_NEAR(static_cast<double>(kQueries) * static_cast<double>(got), want,
                    2 * error + 2e-6 * (1 + want))
            << n;
      }
    }
  }
}

void expect_nan_on(const Problem& problem) {
  Case c(problem);
  c.q[40 * 2 * 16] = std::numeric_limits<float>::quiet_NaN();  // row 40 of head 0
  if (!c.far_q.empty()) c.far_q[40 * (c.far_q.size() / 70)] = c.q[40 * 2 * 16];
  c.forward();
  for (const MapQuantity quantity : {MapQuantity::weight, MapQuantity::score}) {
    std::vector<float> mean(70 * 7), maximum(70 * 7);
    MapOutputs map;
    map.quantity = quantity;
    map.height = 70;
    map.width = 7;
    map.mean = mean.data();
    map.maximum = maximum.data();
    attention_map(c.inputs, c.lse.data(), {0, 0, 1, 0, 70, 0, 70}, map);
    for (std::size_t y = 0; y < 70; ++y) {
      for (std::size_t x = 0; x < 7; ++x) {
        const bool masked = 10 * x > y;
        const std::size_t at = y * 7 + x;
        EXPECT_EQ(std::isnan(mean[at]), y == 40 && !masked) << y << " " << x;
        EXPECT_EQ(std::isnan(maximum[at]), y == 40 && !masked) << y << " " << x;
        EXPECT_EQ(std::isinf(mean[at]), masked) << y << " " << x;
      }
    }
  }
  std::vector<double> score(2 * 2);
  const std::int64_t edges[] = {0, 1, 70};
  ForwardOutputs outputs = c.outputs;
  outputs.buckets = {.edges = edges, .count = 2, .score = score.data()};
  attention_forward(c.inputs, outputs);
  EXPECT_TRUE(std::isnan(score[0]) && std::isnan(score[1]));
  EXPECT_TRUE(std::isfinite(score[2]) || is_cape(problem.kind));  // cape mixes heads
}

TEST_P(EveryRegion, PassesNaNOn) {
  const Target best = current_target();
  for (const Target target : kTargets) {
    if (!choose_target(target)) continue;
    SCOPED_TRACE(target_name(target));
    Problem problem{GetParam()};
    problem.shape = {1, 2, 2, 70, 70, 16};
    expect_nan_on(problem);
    problem.soft_cap = 3;
    expect_nan_on(problem);
  }
  choose_target(best);
}

TEST(Map, RowsOfWeightsTimesTheirWidthSumToOne) {
  Problem problem{Kind::plain};
  problem.shape = {1, 1, 1, 96, 96, 16};
  Case c(problem);
  c.forward();
  std::vector<float> mean(96 * 12);
  MapOutputs map;
  map.height = 96;
  map.width = 12;
  map.mean = mean.data();
  attention_map(c.inputs, c.lse.data(), {0, 0, 1, 0, 96, 0, 96}, map);
  for (std::size_t y = 0; y < 96; ++y) {
    double sum = 0;
    for (std::size_t x = 0; x < 12; ++x) {
      const float cell = mean[y * 12 + x];
      sum += std::isinf(cell) ? 0 : cell;
    }
    EXPECT_NEAR(sum * 8, 1, 1e-5);
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, EveryRegion, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
