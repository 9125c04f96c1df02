// Probes of the CUDA form beyond those that cuda_test.cpp has with every problem: numbers of top
// keys, their order, the same bits every time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/device_probes.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/top_keys.h"

namespace phasescope::kernels::testing {
namespace {

class CudaProbes : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!cuda_available(reason)) GTEST_SKIP() << reason;
  }
};

void expect_right(const Problem& problem, const HalfType& type, Case& c, std::int64_t count) {
  SCOPED_TRACE(problem_name(problem) + ", " + std::to_string(count) + " keys");
  DeviceCase device(type, c);
  const DeviceProbes probes(device.attention, count);
  probes.put(device.outputs);
  device.forward();
  probes.expect_right(problem, Reference<double>(c.inputs));
}

TEST_P(CudaProbes, HaveEveryNumberOfTopKeys) {
  auto turn = static_cast<std::size_t>(GetParam());
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{32}, kMaxTopKeys}) {
    Problem problem{GetParam()};
    problem.shape = {1, 2, 1, 17, 150, turn % 4 < 2 ? 16 : 80};
    problem.shape.query_offset = turn % 3 == 0 ? 133 : 40;
    Case c(problem);
    expect_right(problem, kTypes[turn % 2], c, count);
    ++turn;
  }
}

// Of strips and groups of heads too; most rows have fewer keys than are asked for.
TEST_P(CudaProbes, GiveTheSameBitsEveryTime) {
  Problem problem{GetParam()};
  problem.shape = {1, 4, 2, 129, 129, 32};
  problem.documents = Documents::packed;
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  device.attention.cape_bytes = 1;
  std::vector<char> first;
  for (int n = 0; n < 3; ++n) {
    const DeviceProbes probes(device.attention, 16);
    probes.put(device.outputs);
    device.forward();
    if (n == 0) first = probes.bytes();
    EXPECT_EQ(probes.bytes(), first);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaProbes, ::testing::ValuesIn(kinds_on_cuda()),
                         [](const auto& info) { return kind_name(info.param); });

class CudaTopKeys : public CudaProbes {};

// Maxima that grow along a row: nearly every key is among the largest when it comes.
TEST_P(CudaTopKeys, HoldWhereScoresGrowTowardsTheQuery) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 2, 200, 200, 16};
  Case c(problem);
  const std::size_t length = c.table.size() / 2;
  for (std::size_t n = 0; n < c.table.size(); ++n) {
    c.table[n] = -0.5f * static_cast<float>(n % length);
  }
  expect_right(problem, kTypes[1], c, 16);
}
INSTANTIATE_TEST_SUITE_P(Kernels, CudaTopKeys, ::testing::Values(Kind::table, Kind::cape),
                         [](const auto& info) { return kind_name(info.param); });

// Two values of scores: every seventh key of the tiles is the larger one. Of equals the lower key
// goes first, within a tile and from tile to tile.
TEST(CudaChecks, OrderEqualTopKeys) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{Kind::plain};
  problem.shape = {1, 1, 1, 200, 200, 16};
  problem.shape.window = 150;
  Case c(problem);
  std::fill(c.q.begin(), c.q.end(), 1.0f);
  for (std::size_t n = 0; n < c.k.size(); ++n) c.k[n] = n / 16 % 7 == 5 ? 1.0f : 0.0f;
  DeviceCase device(kTypes[0], c);
  const DeviceProbes probes(device.attention, 30);
  probes.put(device.outputs);
  device.forward();
  const TopKeys top = probes.top_keys();
  for (std::int32_t i = 0; i < 200; ++i) {
    std::vector<std::int32_t> expected;
    for (std::int32_t j = std::max(0, i - 149); j <= i; ++j) expected.push_back(j);
    std::stable_partition(expected.begin(), expected.end(), [](auto key) { return key % 7 == 5; });
    expected.resize(30, -1);
    for (std::size_t n = 0; n < 30; ++n) {
      EXPECT_EQ(top.key[static_cast<std::size_t>(i) * 30 + n], expected[n]) << i << " " << n;
    }
  }
}

// The same scores: of those that are the largest the first key is named, whichever thread has it
// and whatever another one named before. By 16 keys at a time, as by 32.
TEST(CudaChecks, NameTheFirstKeyOfEqualMaxima) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  for (const std::int64_t dim : {16, 128}) {
    Problem problem{Kind::plain};
    problem.shape = {1, 1, 1, 200, 200, dim};
    problem.shape.window = 100;
    Case c(problem);
    std::fill(c.q.begin(), c.q.end(), 1.0f);
    for (std::size_t n = 0; n < c.k.size(); ++n) {
      c.k[n] = n / static_cast<std::size_t>(dim) % 7 == 5 ? 1.0f : 0.0f;
    }
    DeviceCase device(kTypes[0], c);
    const DeviceArray<std::int32_t> keys(200);
    device.outputs.rows.max_key = keys.data();
    device.forward();
    const std::vector<std::int32_t> got = keys.values();
    for (std::int32_t i = 0; i < 200; ++i) {
      const std::int32_t first = std::max(0, i - 99), large = first + (12 - first % 7) % 7;
      EXPECT_EQ(got[static_cast<std::size_t>(i)], large <= i ? large : first) << dim << " " << i;
    }
  }
}

// ALiBi's term is -m lambda of every pair of a distance: no deviation but what a score's rounding
// leaves, 1e-7 of it. As float32 sums of squares it would be a thousandth of the term.
TEST(CudaChecks, GiveATermOfTheDistanceAloneNoDeviation) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  constexpr std::int64_t kTokens = 300;
  Problem problem{Kind::table};
  problem.shape = {1, 1, 1, kTokens, kTokens, 16};
  Case c(problem);
  for (std::size_t n = 0; n < c.table.size(); ++n) c.table[n] = -0.5f * static_cast<float>(n);
  DeviceCase device(kTypes[0], c);
  std::vector<std::int64_t> edges;
  for (std::int64_t n = 0; n <= kTokens; ++n) edges.push_back(n);
  const DeviceArray<std::int64_t> there(edges);
  const DeviceArray<double> term(kTokens), square(kTokens);
  // Terms alone: no content scores are kept for them.
  BucketProbes& buckets = device.outputs.buckets;
  buckets = {
      .edges = there.data(), .count = kTokens, .term = term.data(), .term_square = square.data()};
  const DeviceArray<char> workspace(cuda_bucket_workspace(device.attention, buckets));
  device.outputs.workspace = workspace.data();
  device.forward();
  const std::vector<double> sums = term.values(), squares = square.values();
  for (std::int64_t d = 0; d < kTokens; ++d) {
    const auto at = static_cast<std::size_t>(d);
    const double pairs = static_cast<double>(kTokens - d), expected = -0.5 * static_cast<double>(d);
    const double rounding = 4e-7 * (1 - expected), mean = sums[at] / pairs;
    EXPECT_NEAR(mean, expected, rounding) << d;
    // Of float64, the root of what the difference of two squares loses.
    const double variance = squares[at] / pairs - mean * mean;
    EXPECT_LT(std::sqrt(std::max(0.0, variance)), rounding + 1e-7 * (1 - expected)) << d;
  }
}

TEST(CudaChecks, RefuseProbesTheyCannotGive) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{Kind::plain};
  problem.shape = {1, 1, 1, 20, 20, 16};
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  const DeviceProbes probes(device.attention, 4);
  probes.put(device.outputs);
  const auto refuses = [&](auto change) {
    CudaForwardOutputs outputs = device.outputs;
    change(outputs);
    EXPECT_THROW(cuda_attention_forward(device.attention, outputs), std::invalid_argument);
  };
  refuses([](CudaForwardOutputs& o) { o.rows.top_count = 0; });
  refuses([](CudaForwardOutputs& o) { o.rows.top_count = kMaxTopKeys + 1; });
  refuses([](CudaForwardOutputs& o) { o.workspace = nullptr; });
  refuses([](CudaForwardOutputs& o) { o.buckets.edges = nullptr; });
  refuses([](CudaForwardOutputs& o) {
    o.buckets = {};
    o.lse = nullptr;
  });
  // Either of the two arrays alone will do.
  device.outputs.rows.top_weight = nullptr;
  EXPECT_NO_THROW(device.forward());
  probes.put(device.outputs);
  device.outputs.rows.top_key = nullptr;
  EXPECT_NO_THROW(device.forward());
}

}  // namespace
}  // namespace phasescope::kernels::testing
