// The keys of a row's largest weights on the CPU.

#include "tests/kernels/top_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/cases.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

/// The probe of a case, switched on.
TopKeys switched_on(Case& c, std::int64_t count) {
  const std::size_t size = c.lse.size() * static_cast<std::size_t>(count);
  TopKeys top{count, std::vector<std::int32_t>(size), std::vector<float>(size)};
  RowProbes& rows = c.outputs.rows;
  rows.top_count = count;
  rows.top_key = top.key.data();
  rows.top_weight = top.weight.data();
  return top;
}

void expect_top_keys(Case& c, std::int64_t count, double tolerance) {
  const TopKeys top = switched_on(c, count);
  c.forward();
  expect_top_keys(top, Reference<double>(c.inputs), tolerance);
}

void expect_top_keys(const Problem& problem, std::int64_t count) {
  SCOPED_TRACE(problem_name(problem) + ", " + std::to_string(count) + " keys");
  // Scores are right to 1e-5; a phase of hundreds of radians carries its rounding into its cosine.
  const bool phase = problem.kind == Kind::tapa || problem.kind == Kind::tapa_linear;
  Case c(problem);
  expect_top_keys(c, count, phase ? 1e-4 : 1e-5);
}

class EveryTopKey : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryTopKey, IsRightAtEverySize) {
  for (const std::int64_t size : {1, 2, 17, 64, 129, 300}) {
    Problem problem{GetParam()};
    problem.shape = {1, 2, 1, size, size, 16};
    for (const std::int64_t count :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{9}, std::int64_t{32}, kMaxTopKeys}) {
      expect_top_keys(problem, count);
    }
  }
}

TEST_P(EveryTopKey, HoldsWithMasksCapsAndRowsThatSeeNoKey) {
  Problem problem{GetParam()};
  problem.shape = {2, 2, 1, 230, 230, 16};
  problem.shape.window = 9;
  problem.padding = Padding::holes;
  expect_top_keys(problem, 12);
  problem.shape.window = 0;
  problem.shape.causal = false;
  problem.soft_cap = 2;
  expect_top_keys(problem, 12);
  problem = Problem{GetParam()};
  problem.shape = {1, 2, 2, 100, 40, 16};
  problem.shape.query_offset = -60;
  expect_top_keys(problem, 5);
}

// Maxima that grow along a row, where nearly every key is among the largest when it comes.
TEST(TopKeys, HoldWhereScoresGrowTowardsTheQuery) {
  for (const Kind kind : {Kind::table, Kind::cape}) {
    Problem problem{kind};
    problem.shape = {1, 2, 2, 300, 300, 16};
    Case c(problem);
    const std::size_t length = c.table.size() / 2;
    for (std::size_t n = 0; n < c.table.size(); ++n) {
      c.table[n] = -0.5f * static_cast<float>(n % length);
    }
    expect_top_keys(c, 16, 1e-5);
  }
}

// All scores alike: the first keys a query sees, in order, and the same weight on each.
TEST(TopKeys, TakeTheLowerOfEqualKeys) {
  Problem problem{Kind::plain};
  problem.shape = {1, 1, 1, 90, 90, 16};
  problem.shape.window = 60;
  Case c(problem);
  std::fill(c.q.begin(), c.q.end(), 0.0f);
  const TopKeys top = switched_on(c, 8);
  c.forward();
  for (std::int64_t i = 0; i < 90; ++i) {
    const std::int64_t first = std::max<std::int64_t>(0, i - 59), seen = i - first + 1;
    for (std::int64_t n = 0; n < 8; ++n) {
      const auto at = static_cast<std::size_t>(8 * i + n);
      EXPECT_EQ(top.key[at], n < seen ? first + n : -1) << i << " " << n;
      EXPECT_NEAR(top.weight[at], n < seen ? 1.0 / static_cast<double>(seen) : 0, 1e-6);
    }
  }
}

// Two values of scores: a later key of the larger one goes ahead of all of the smaller.
TEST(TopKeys, KeepTheOrderOfEqualKeysThatMoveDown) {
  Problem problem{Kind::plain};
  problem.shape = {1, 1, 1, 64, 64, 16};
  Case c(problem);
  std::fill(c.q.begin(), c.q.end(), 1.0f);
  for (std::size_t n = 0; n < c.k.size(); ++n) c.k[n] = n / 16 % 7 == 5 ? 1.0f : 0.0f;
  const TopKeys top = switched_on(c, 6);
  c.forward();
  const std::int32_t wanted[] = {5, 12, 19, 0, 1, 2};  // of the query at 20
  for (std::size_t n = 0; n < 6; ++n) EXPECT_EQ(top.key[6 * 20 + n], wanted[n]);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, EveryTopKey, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
