// What has no effect changes no bit: gates of 1, sinks without weight, biases alike, limits that no
// distance reaches, sums that nobody asked for.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/cases.h"

namespace phasescope::kernels::testing {
namespace {

class WithoutEffect : public ::testing::TestWithParam<Kind> {};

void run(Case& c) { c.forward(), c.backward(); }

/// Bit for bit.
void expect_same(const Case& c, const Case& without) {
  EXPECT_EQ(c.out, without.out);
  EXPECT_EQ(c.lse, without.lse);
  EXPECT_EQ(c.dq, without.dq);
  EXPECT_EQ(c.dk, without.dk);
  EXPECT_EQ(c.dv, without.dv);
}

// A bias that all keys have alike, a factor of 1 and tokens without numbers change nothing: of
// biases not even a bit where they cancel.
TEST(Tokens, OfNoConsequenceLeaveEverythingAsItIs) {
  Problem problem{Kind::plain};
  problem.shape = {2, 2, 1, 150, 150, 24};
  Case without(problem);
  run(without);
  problem.kind = Kind::tokens;
  Case c(problem);
  std::fill(c.query_bias.begin(), c.query_bias.end(), 1e9);
  std::fill(c.key_bias.begin(), c.key_bias.end(), -1e9);
  std::fill(c.query_factor.begin(), c.query_factor.end(), 1.0f);
  run(c);
  expect_same(c, without);
}

// The output is what it is without, times the gate, rounded once more; a gate of 1 changes no bit
// of anything, and none of what does not come from the output.
TEST_P(WithoutEffect, MultipliesItsOutputByTheGate) {
  Problem problem{GetParam()};
  problem.shape = {2, 2, 1, 90, 90, 16};
  Case without(problem);
  run(without);
  for (const Gates gates : {Gates::by_channel, Gates::by_row}) {
    problem.gates = gates;
    Case c(problem);
    c.forward();
    EXPECT_EQ(c.ungated, without.out);
    EXPECT_EQ(c.lse, without.lse);
    EXPECT_EQ(c.out_state, without.out_state);
    const std::size_t dim = gates == Gates::by_row ? 1 : 16;
    for (std::size_t n = 0; n < c.out.size(); ++n) {
      // c.gate lies as (B, N, H, d).
      const std::size_t row = n / 16 % 90, head = n / 16 / 90 % 2, batch = n / 16 / 180;
      const float gate = c.gate[((batch * 90 + row) * 2 + head) * dim + n % 16 % dim];
      ASSERT_EQ(c.out[n], c.ungated[n] * gate) << n;
    }
    std::fill(c.gate.begin(), c.gate.end(), 1.0f);
    run(c);
    expect_same(c, without);
    EXPECT_EQ(c.score_gradients, without.score_gradients);
  }
}

// Asking for sums of the gradients of scores changes no other gradient.
TEST_P(WithoutEffect, SumsItsScoresGradientsBesideTheOthers) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 200, 200, 16};
  problem.soft_cap = 2;
  Case c(problem), without(problem);
  without.gradients.scores = {};
  for (Case* one : {&c, &without}) run(*one);
  expect_same(c, without);
  EXPECT_EQ(c.d_table, without.d_table);
  EXPECT_EQ(c.d_w1, without.d_w1);
}

// A head without a limit is plain, bit for bit; with the same q and k beyond it, but for the
// rounding of a unit of scores.
TEST(Clamp, WithoutALimitIsPlain) {
  Problem problem{Kind::plain};
  problem.shape = {1, 2, 1, 150, 150, 24};
  Case plain(problem);
  problem.kind = Kind::clamp;
  Case c(problem);
  std::fill(c.limits.begin(), c.limits.end(), 150);
  for (Case* one : {&plain, &c}) run(*one);
  expect_same(c, plain);
  EXPECT_EQ(c.d_far_q, std::vector<float>(c.far_q.size(), 0.0f));
  std::fill(c.limits.begin(), c.limits.end(), 20);
  c.far_q = c.q, c.far_k = c.k;
  c.forward();
  for (std::size_t n = 0; n < c.out.size(); ++n) EXPECT_NEAR(c.out[n], plain.out[n], 3e-6);
}

// A sink of -inf changes no bit, and however large ones leave numbers.
TEST_P(WithoutEffect, HoldsWithSinksOfAnySize) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 70, 70, 16};
  Case without(problem);
  run(without);
  problem.sinks = Sinks::off;
  Case c(problem);
  run(c);
  expect_same(c, without);
  EXPECT_EQ(c.d_sinks, std::vector<float>(2, 0.0f));
  for (const float sink : {100.0f, 1e6f}) {
    std::fill(c.sinks.begin(), c.sinks.end(), sink);
    run(c);
    for (const float x : c.out) EXPECT_LT(std::abs(x), 1e-30f);
    for (const auto* gradient : {&c.dq, &c.dk, &c.dv, &c.d_sinks}) {
      for (const float x : *gradient) EXPECT_LT(std::abs(x), 1e-28f);
    }
  }
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, WithoutEffect, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
