// Gradients of tables, which blocks that make dq sum by distance on their way: with fewer blocks
// than there are stretches of queries, each takes several. Where dq is made by itself:
// cuda_one_pass_test.cpp has the other form.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/launchers.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/expect_right.h"

namespace phasescope::kernels::testing {
namespace {

class CudaTableGradients : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!cuda_available(reason)) GTEST_SKIP() << reason;
  }
};

/// Bytes with which a head's queries are shared by so many blocks.
std::size_t bytes_for(const AttentionShape& s, std::size_t blocks) {
  return blocks * static_cast<std::size_t>(s.batch * s.heads * cuda::block_distances(s)) * 4;
}

/// Of two stretches of 128 queries and one of 21, the least that two blocks take back and forth: of
/// more keys, and fewer, with windows and padding; heads of a group, texts and padded channels.
std::vector<Problem> long_problems(Kind kind) {
  Problem problem{kind};
  problem.shape = {1, 2, 1, 277, 300, 16, 0, true, 23};
  std::vector<Problem> problems{problem};
  problem.padding = Padding::left;
  problem.shape = {2, 1, 1, 277, 140, 72, 0, false, -60};
  problems.push_back(problem);
  problem.padding = Padding::none;
  problem.documents = Documents::packed;
  problem.shape = {1, 1, 1, 277, 277, 128, 0, true, 0, 100};
  problems.push_back(problem);
  return problems;
}

TEST_P(CudaTableGradients, AreRightInAnyNumberOfBlocks) {
  std::size_t turn = 0;
  for (const Problem& problem : long_problems(GetParam())) {
    const HalfType& type = kTypes[turn++ % 2];
    // One block a head takes all queries, one stretch after the other; two take the three back and
    // forth.
    // With probes at 128 channels, where a block of two tiles of queries takes the fewest keys at a
    // time, and so has other sums than without them.
    const bool probes = problem.shape.head_dim == 128;
    Case one(problem), two(problem);
    const auto with_bytes = [](std::size_t bytes) {
      return [bytes](CudaAttention& a) { a.dq_bytes = 0, a.table_bytes = bytes; };
    };
    expect_right(type, problem, one, probes, with_bytes(1));
    expect_right(type, problem, two, probes, with_bytes(bytes_for(problem.shape, 2)));
    EXPECT_EQ(one.dq, two.dq);  // which each stretch of queries makes by itself
  }
}

TEST_P(CudaTableGradients, AreWantedOrNotWithoutAnotherBit) {
  for (const std::int64_t dim : {64, 128}) {
    Problem problem{GetParam()};
    problem.shape = {1, 2, 1, 140, 140, dim};  // two stretches of queries
    Case c(problem), without(problem);
    DeviceCase device(kTypes[0], c), other(kTypes[0], without);
    device.forward();
    device.backward();
    other.forward();
    const DeviceArray<char> workspace(cuda_backward_workspace(other.attention));
    CudaGradients gradients = other.gradients(workspace.data());
    gradients.variant = std::monostate{};
    other.backward(gradients);
    EXPECT_EQ(without.dq, c.dq);
    EXPECT_EQ(without.dk, c.dk);
    EXPECT_EQ(without.dv, c.dv);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaTableGradients,
                         ::testing::Values(Kind::table, Kind::table_signed, Kind::table_multiplied,
                                           Kind::table_tokens),
                         [](const auto& info) { return kind_name(info.param); });

TEST(CudaChecks, TablesOfNoQueryHaveNoGradient) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{Kind::table};
  problem.shape = {1, 2, 1, 0, 20, 16};
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  device.backward();
  EXPECT_EQ(c.d_table, std::vector<float>(c.d_table.size()));
}

// Blocks are enough to keep a device busy where memory lets them be, and one a head at least; what
// they keep grows with the length alone.
TEST(CudaChecks, BlocksOfTablesFitTheirMemory) {
  CudaAttention a;
  a.variant = TableVariant{};
  a.dq_bytes = 0;
  const auto blocks = [&a](std::int64_t heads, std::int64_t length) {
    a.shape = {1, heads, heads, length, length, 64};
    const cuda::TableBlocks found = cuda::table_blocks(a);
    EXPECT_EQ(static_cast<std::size_t>(found.floats) * 4, bytes_for(a.shape, found.count));
    // 4 bytes for each row of a head, its log-sum-exp's neighbour delta.
    EXPECT_EQ(cuda_backward_workspace(a),
              static_cast<std::size_t>(found.floats + heads * length) * 4);
    return found.count;
  };
  EXPECT_EQ(blocks(2, 1), 1u);
  EXPECT_EQ(blocks(2, 129), 2u);       // one for each 128 queries
  EXPECT_EQ(blocks(32, 2048), 16u);    // likewise
  EXPECT_EQ(blocks(32, 8192), 32u);    // 1024 in all
  EXPECT_EQ(blocks(32, 32768), 8u);    // 64 MiB are 256 times 65536 numbers
  EXPECT_EQ(blocks(4096, 32768), 1u);  // one a head, whatever it takes
  EXPECT_EQ(blocks(2, 0), 0u);
}

}  // namespace
}  // namespace phasescope::kernels::testing
