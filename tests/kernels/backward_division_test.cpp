// How the backward pass is divided among many threads: the same bits, enough work, bounded memory.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cpu/cape_plan.h"
#include "kernels/cpu/chunks.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/threads.h"

namespace phasescope::kernels::testing {
namespace {

/// Every gradient, with those of the scores by distance or without: sums over blocks of queries,
/// which most variants do not have themselves, are made in another way.
std::vector<float> gradients_with(int threads, const Problem& problem, bool sums_scores) {
  const Threads scope(threads);
  Case c(problem);
  if (!sums_scores) c.gradients.scores = {};
  c.forward();
  c.backward();
  std::vector<float> all(c.score_gradients.begin(), c.score_gradients.end());
  for (const auto* part : {&c.dq, &c.dk, &c.dv, &c.d_state, &c.d_table, &c.d_factor, &c.d_slope,
                           &c.d_intercept, &c.d_far_q, &c.d_far_k, &c.d_query_bias, &c.d_key_bias,
                           &c.d_query_factor, &c.d_w1, &c.d_b1, &c.d_w2, &c.d_b2}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

// More threads than heads times chunks: keys go in parts, of 128 keys here, and queries apart from
// them. The first has chunks (8 heads, two each), the last has none (16 heads of keys and values),
// and 16 threads are too few for parts in both.
class EveryDivision : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryDivision, GivesTheSameBitsWhereThreadsOutnumberHeads) {
  Problem problem{GetParam()};
  const auto expect_same = [&] {
    for (const bool sums_scores : {false, true}) {
      const std::vector<float> one = gradients_with(1, problem, sums_scores);
      for (const int threads : {2, 3, 16, 64, 128}) {
        EXPECT_TRUE(same_bits(one, gradients_with(threads, problem, sums_scores))) << threads;
      }
    }
  };
  problem.shape = {1, 8, 8, 450, 450, 16};
  expect_same();
  problem.shape = {2, 16, 8, 200, 400, 16, 0, true, 200};
  problem.shape.window = 230;
  problem.storage = Storage::bfloat16;
  expect_same();
}

// Lengths about a panel's, so that some threads have no item, and one share stands for a text.
class EveryCapeDivision : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryCapeDivision, GivesTheSameBitsAtAnyLength) {
  Problem problem{GetParam()};
  problem.padding = Padding::left;  // the first rows see no key
  for (const std::int64_t tokens : {1, 48, 97, 700}) {
    problem.shape = {2, 4, 2, tokens, tokens, 8};
    const std::vector<float> one = gradients_with(1, problem, true);
    for (const int threads : {2, 3, 16, 128}) {
      EXPECT_TRUE(same_bits(one, gradients_with(threads, problem, true)))
          << tokens << " tokens, " << threads << " threads";
    }
  }
}

/// The division of a shape whose keys have `row` bytes of dk and dv.
struct Division {
  std::int64_t shares;
  BackwardParts parts;
};
Division division_of(const AttentionShape& shape, std::int64_t threads, std::int64_t row) {
  constexpr std::int64_t kBlock = 192, kBuffer = std::int64_t{1} << 20;  // about what D 128 needs
  const std::int64_t blocks = (shape.queries + kBlock - 1) / kBlock;
  const std::int64_t chunks = backward_chunks(shape, blocks, row / 4);
  return {shape.batch * shape.kv_heads * chunks,
          backward_parts(threads, shape, chunks, row, kBuffer)};
}

TEST(BackwardDivision, HasWorkForSixtyFourThreads) {
  const AttentionShape shape{1, 8, 8, 2048, 2048, 128};
  const Division many = division_of(shape, 64, 1024);
  EXPECT_EQ(many.parts.threads, 64);
  EXPECT_GE(many.shares * many.parts.count, 64);
  EXPECT_GE(many.parts.keys * many.parts.count, shape.keys);
  // Two computations of each score are no gain where shares are enough.
  for (const int threads : {1, 2, 3, 16}) {
    EXPECT_EQ(division_of(shape, threads, 1024).parts.threads, 0) << threads;
  }
}

TEST(BackwardDivision, StaysWithinItsBytes) {
  for (const std::int64_t heads : {1, 2, 8, 32}) {
    for (const std::int64_t tokens : {1, 100, 2048, 8192, 32768, 200000}) {
      for (const int threads : {2, 64, 128, 1000}) {
        const AttentionShape shape{1, heads, heads, tokens, tokens, 128};
        const auto [shares, parts] = division_of(shape, threads, 1024);
        const bool chunks = shares > heads;
        const std::int64_t own = (std::int64_t{1} << 20) + (chunks ? 0 : parts.keys * 1024);
        const std::int64_t sums = chunks ? shares * tokens * 1024 : 0;
        if (parts.threads > 0) {
          EXPECT_LE(parts.threads * own + sums, kBackwardBytes) << heads << " " << tokens;
        }
        EXPECT_LE(parts.threads, threads);
      }
    }
  }
}

/// CAPE's, of panels of 48 queries and 40 hidden units and heads.
struct CapeDivision {
  CapePlan plan;
  CapeParts parts;
  CapeBytes bytes;
  std::int64_t panels, held;
};
CapeDivision cape_division(std::int64_t heads, std::int64_t tokens, std::int64_t dim, int threads) {
  constexpr std::int64_t kQueries = 48, kRows = 40;
  const AttentionShape shape{1, heads, heads, tokens, tokens, dim};
  CapeDivision d;
  d.panels = (tokens + kQueries - 1) / kQueries;
  d.plan = cape_plan(shape, kQueries, heads * 2 * dim, kRows);
  d.bytes = {4 * heads * 2 * dim, 4 * kRows * (d.plan.keys + kQueries), heads * dim * 1600,
             8 * kRows * (tokens + d.plan.items() * (d.plan.keys + 2400))};
  d.parts = cape_parts(threads, d.plan, d.panels, d.bytes, false);
  d.held = d.bytes.all + d.parts.threads * d.bytes.thread +
           d.plan.tile_panels(d.panels) * d.bytes.panel +
           d.plan.items() * d.parts.slice * d.bytes.key;
  return d;
}

TEST(CapeDivision, HasWorkForSixtyFourThreads) {
  const CapeDivision many = cape_division(8, 2048, 128, 64);
  EXPECT_EQ(many.parts.threads, 64);
  const std::int64_t parts = (many.parts.slice + many.parts.keys - 1) / many.parts.keys;
  EXPECT_GE(many.plan.tile_panels(many.panels) + many.plan.items() * parts, 64);
  // Two computations of each score are no gain where shares are enough.
  for (const int threads : {1, 2, 3, 16}) {
    EXPECT_EQ(cape_division(8, 2048, 128, threads).parts.threads, 0) << threads;
  }
}

// In parts there are two computations of each score, and a pass for dq alone is another.
TEST(CapeDivision, ComputesNoScoreMoreThanTwice) {
  for (const std::int64_t tokens : {2048, 32768}) {
    const CapeDivision d = cape_division(8, tokens, 128, 64);
    EXPECT_GT(d.parts.threads, 0) << tokens;
    EXPECT_EQ(cape_parts(64, d.plan, d.panels, d.bytes, true).threads, 0) << tokens;
  }
}

TEST(CapeDivision, StaysWithinItsBytes) {
  for (const std::int64_t heads : {1, 2, 8, 32}) {
    for (const std::int64_t tokens : {1, 100, 2048, 8192, 32768, 200000}) {
      for (const int threads : {2, 64, 128, 1000}) {
        const CapeDivision d = cape_division(heads, tokens, 128, threads);
        if (d.parts.threads > 0) {
          EXPECT_LE(d.held, kBackwardBytes) << heads << " " << tokens;
        }
        EXPECT_LE(d.parts.threads, threads);
      }
    }
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, EveryCapeDivision,
                         ::testing::Values(Kind::cape, Kind::cape_concat, Kind::cape_content,
                                           Kind::cape_fire),
                         [](const auto& info) { return kind_name(info.param); });
INSTANTIATE_TEST_SUITE_P(Kernels, EveryDivision, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
