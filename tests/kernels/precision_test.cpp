// Scores in the thousands: what float32 leaves of weights that are read after the pass, from the
// log-sum-exp that it left.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

/// Half a unit in the last place of a float32 of this size: what a log-sum-exp of it loses when it
/// is stored, and so the relative error of the weights made from it.
double half_unit(double size) { return std::ldexp(1.0, std::ilogb(size) - 24); }

double largest_lse(const Reference<double>& truth) {
  double most = 0;
  for (const double lse : truth.lse) most = std::max(most, std::abs(lse));
  return most;
}

/// Weights of the first head as every later reading gives them.
struct Readings {
  std::vector<float> region;   ///< every pair
  std::vector<float> mean;     ///< a map of cells of 13 x 10 pairs; masked ones count 0
  std::vector<float> buckets;  ///< sums by distance
};

constexpr std::int64_t kTokens = 130, kHeight = 10, kWidth = 13;
const std::vector<std::int64_t> kEdges{0, 1, 2, 5, 20, 60, 130};

Readings read_weights(Case& c) {
  Readings r;
  r.region.resize(kTokens * kTokens);
  r.mean.resize(kHeight * kWidth);
  const Region all{0, 0, 1, 0, kTokens, 0, kTokens};
  attention_region(c.inputs, c.lse.data(), all, nullptr, r.region.data());
  attention_map(c.inputs, c.lse.data(), all,
                {.height = kHeight, .width = kWidth, .mean = r.mean.data()});
  const auto count = static_cast<std::int64_t>(kEdges.size()) - 1;
  std::vector<double> weight(static_cast<std::size_t>(c.inputs.shape.heads * count));
  ForwardOutputs again = c.outputs;
  again.known_lse = c.lse.data();
  again.buckets = {.edges = kEdges.data(), .count = count, .weight = weight.data()};
  attention_forward(c.inputs, again);
  r.buckets.assign(weight.begin(), weight.begin() + count);
  return r;
}

/// The same of a reference, whose cells without a pair are -inf.
template <typename Real>
Readings weights_of(const Reference<Real>& ref, std::vector<double> (&exact)[3]) {
  exact[1].assign(kHeight * kWidth, 0);
  exact[2].assign(kEdges.size() - 1, 0);
  std::vector<bool> seen(exact[1].size());
  for (std::int64_t n = 0; n < kTokens * kTokens; ++n) {
    const std::int64_t i = n / kTokens, j = n % kTokens;
    const auto weight = static_cast<double>(ref.weight[static_cast<std::size_t>(n)]);
    const auto cell =
        static_cast<std::size_t>(i * kHeight / kTokens * kWidth + j * kWidth / kTokens);
    exact[0].push_back(weight);
    exact[1][cell] += weight / static_cast<double>(kTokens / kHeight * (kTokens / kWidth));
    seen[cell] = seen[cell] || ref.visible(0, i, j);
    if (!ref.visible(0, i, j)) continue;
    const auto above = std::upper_bound(kEdges.begin(), kEdges.end(), std::abs(i - j));
    if (above != kEdges.end()) {
      exact[2][static_cast<std::size_t>(above - kEdges.begin()) - 1] += weight;
    }
  }
  for (std::size_t n = 0; n < seen.size(); ++n) {
    if (!seen[n]) exact[1][n] = -std::numeric_limits<double>::infinity();
  }
  const auto floats = [](const std::vector<double>& x) {
    return std::vector<float>(x.begin(), x.end());
  };
  return {floats(exact[0]), floats(exact[1]), floats(exact[2])};
}

void expect_weights(Case& c, double floor) {
  const Reference<double> truth(c.inputs);
  const Reference<float> plain(c.inputs);
  std::vector<double> exact[3], unused[3];
  weights_of(truth, exact);
  const Readings twin = weights_of(plain, unused), got = read_weights(c);
  expect_close("region", got.region, twin.region, exact[0], floor, 1);
  expect_close("map", got.mean, twin.mean, exact[1], floor, 1);
  // A bucket's sum grows with its rows, and so does what they lose.
  expect_close("buckets", got.buckets, twin.buckets, exact[2], floor, 1);
}

class EveryVariantWithLargeScores : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryVariantWithLargeScores, IsRightAtTenThousand) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 2, kTokens, kTokens, 32};
  problem.magnitude = 1e4f;
  Case c(problem);
  c.forward();
  if (has_phase(GetParam())) {
    // Phases of 1e6 radians in float32 are noise in any implementation; finite is what can be
    // asked.
    for (const float x : c.out) EXPECT_TRUE(std::isfinite(x));
    return;
  }
  Reference<double> truth(c.inputs);
  Reference<float> plain(c.inputs);
  // A score's rounding is a share of its weight, and values are about 1.
  expect_close("out", c.out, plain.out, truth.out, 8, 1e4);
  expect_close("lse", c.lse, plain.lse, truth.lse, 8, 1);
  const double stored_lse = half_unit(largest_lse(truth)) / 0x1p-24;
  expect_weights(c, 8 + stored_lse);
  c.backward();
  const auto* tape = std::get_if<TapeGradients>(&c.gradients.variant);
  const InputTensor d_state = tape ? tape->d_out_state : InputTensor{};
  truth.backward(c.saved.d_out, d_state);
  plain.backward(c.saved.d_out, d_state);
  // What a weight loses is that share of d score too, a difference of two sums of this size; dk
  // multiplies it with q.
  const double size = std::sqrt(static_cast<double>(2 * truth.values()));
  expect_close("dq", c.dq, plain.dq, truth.dq, 16 + stored_lse, size);
  expect_close("dk", c.dk, plain.dk, truth.dk, 16 + stored_lse, 1e4 * size);
  expect_close("dv", c.dv, plain.dv, truth.dv, 16 + stored_lse, size);
}

// Scores about 6400 that float32 holds without rounding, in natural and in log2 units: whole
// numbers and halves, and a scale of ln 2. What is left is the rounding of the log-sum-exp, 2^-12
// there: each weight may be off by that share, and by 2^-20 for the exponential and the sums, and
// no more.
TEST(LargeScores, LoseNothingButTheRoundingOfTheirLogSumExp) {
  Problem problem;
  problem.shape = {1, 1, 1, kTokens, kTokens, 8};
  Case c(problem);
  c.inputs.scale = 0.693147180559945309f;
  for (std::size_t n = 0; n < c.q.size(); ++n) {
    c.q[n] = n % 8 == 0 ? 1024.0f : n % 8 == 1 ? 0.5f : 0.0f;
    c.k[n] = n % 8 == 0 ? 9.0f : n % 8 == 1 ? static_cast<float>(n / 8 * 37 % 11) : 0.0f;
    c.d_out[n] = 1;
  }
  c.forward();
  Reference<double> truth(c.inputs);
  ASSERT_GT(truth.lse.front(), 4096);
  ASSERT_LT(truth.lse.back(), 8192);
  const double share = 0x1p-12 + 0x1p-20;
  std::vector<double> exact[3];
  weights_of(truth, exact);
  const Readings got = read_weights(c);
  const auto expect_share = [&](const char* what, const std::vector<float>& values,
                                const std::vector<double>& want) {
    for (std::size_t n = 0; n < want.size(); ++n) {
      if (std::isinf(want[n])) continue;
      ASSERT_NEAR(values[n], want[n], share * want[n]) << what << " " << n;
    }
  };
  expect_share("region", got.region, exact[0]);
  expect_share("map", got.mean, exact[1]);
  expect_share("buckets", got.buckets, exact[2]);
  // With d_out = 1 everywhere, dv is the sum of its key's weights.
  c.backward();
  truth.backward(c.saved.d_out, {});
  expect_share("dv", c.dv, truth.dv);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Kernels, EveryVariantWithLargeScores, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace phasescope::kernels::testing
