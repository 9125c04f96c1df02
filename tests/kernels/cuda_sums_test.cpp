// Sums of scores by row, key and distance, and of their gradients by distance, of the CUDA form.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/true_score_sums.h"

namespace phasescope::kernels::testing {
namespace {

constexpr std::int64_t kLength = 60;  // some distances are farther

class CudaSums : public KindOnDevice {};

/// Keys on both sides of their queries, groups of heads, tiles of one pair; then all kinds of masks
/// with rows that see no key, of two texts.
std::vector<Problem> sum_problems(Kind kind) {
  Problem problem{kind};
  problem.shape = {1, 2, 1, 70, 80, 16, 0, false, -5};
  std::vector<Problem> problems{problem};
  problem.shape = {2, 1, 1, 66, 70, 80, 0, true, -4, 40};
  problem.padding = Padding::holes, problem.documents = Documents::packed;
  problem.sinks = Sinks::even, problem.soft_cap = 1.5f;
  problems.push_back(problem);
  if (kind == Kind::plain || kind == Kind::table) {  // wide heads
    problem.shape = {1, 1, 1, 66, 70, 192, 128, true, -4};
    problems.push_back(problem);
  }
  return problems;
}

void expect_near(const char* what, const std::vector<double>& got, const std::vector<double>& want,
                 double most) {
  for (std::size_t n = 0; n < want.size(); ++n) ASSERT_NEAR(got[n], want[n], most) << what << n;
}

void expect_score_sums(const HalfType& type, const Problem& problem, bool shifted) {
  SCOPED_TRACE(std::string(type.name) + " " + problem_name(problem));
  Case c(problem);
  DeviceCase device(type, c);
  device.attention.cape_bytes = shifted ? 1 : device.attention.cape_bytes;  // strips
  const AttentionShape& s = problem.shape;
  const auto heads = static_cast<std::size_t>(s.batch * s.heads);
  const auto rows = heads * static_cast<std::size_t>(s.queries);
  std::vector<double> shift(rows);
  for (std::size_t n = 0; n < rows && shifted; ++n) {
    shift[n] = 30 * std::sin(static_cast<double>(n));
  }
  const Reference<double> truth(c.inputs);
  const TrueScoreSums want(truth, shift, kLength);
  const DeviceArray<double> shifts(shift), row(rows), column(want.column.size()),
      distance(want.distance.size()), square(heads);
  const DeviceArray<std::int64_t> pairs(rows);
  CudaScoreSums sums{{shifted ? shifts.data() : nullptr, row.data(), pairs.data(), column.data(),
                      distance.data(), kLength, square.data()}};
  const DeviceArray<char> workspace(cuda_sums_workspace(device.attention, sums));
  const DeviceArray<char> scores(cuda_score_workspace(device.attention));
  sums.workspace = workspace.data(), sums.score_workspace = scores.data();
  device.attention.v = {};  // not read
  cuda_attention_score_sums(device.attention, sums);
  PHASESCOPE_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(pairs.values(), want.pairs);
  // Of a score, products of up to 256 channels; TAPA's carries the rounding of a phase of hundreds
  // of radians. Sums of a line are float32, of up to 64 numbers.
  const double each = (has_phase(problem.kind) ? 1e-4 : 2e-5) + (shifted ? 64 * 30 * 0x1p-24 : 0);
  const auto longest = static_cast<double>(s.keys), most = longest * static_cast<double>(s.queries);
  expect_near("row ", row.values(), want.row, longest * each);
  expect_near("key ", column.values(), want.column, longest * each);
  expect_near("distance ", distance.values(), want.distance, 2 * longest * each);
  expect_near("square ", square.values(), want.square, most * each * (shifted ? 30 : 1));
}

TEST_P(CudaSums, OfScoresAreRight) {
  bool shifted = false;
  for (const Problem& problem : sum_problems(GetParam())) {
    expect_score_sums(next_type(), problem, shifted);
    shifted = !shifted;
  }
  if (GetParam() != Kind::plain && GetParam() != Kind::table) return;
  Problem widest{GetParam()};
  widest.shape = {1, 1, 1, 20, 70, 256, 0, true, 10};
  expect_score_sums(next_type(), widest, shifted);
}

/// Weights of pairs by |distance| of each head of the batch.
std::vector<double> weights_by_distance(const Reference<double>& truth) {
  const AttentionShape& s = truth.s;
  std::vector<double> sums(static_cast<std::size_t>(s.batch * s.heads * kLength));
  for (std::size_t n = 0; n < truth.weight.size(); ++n) {
    const auto pair = static_cast<std::int64_t>(n);
    const std::int64_t lambda = std::abs(truth.distance(pair / s.keys % s.queries, pair % s.keys));
    if (lambda >= kLength) continue;
    sums[static_cast<std::size_t>(pair / truth.pairs * kLength + lambda)] += truth.weight[n];
  }
  return sums;
}

void expect_gradient_sums(const HalfType& type, const Problem& problem, bool in_strips) {
  SCOPED_TRACE(std::string(type.name) + " " + problem_name(problem));
  Case c(problem);
  DeviceCase device(type, c);
  if (in_strips) device.attention.cape_bytes = 1;
  device.forward();
  const AttentionShape& s = problem.shape;
  const DeviceArray<double> sums(static_cast<std::size_t>(s.batch * s.heads * kLength));
  const DeviceArray<char> workspace(cuda_backward_workspace(device.attention));
  const DeviceArray<char> distances(cuda_distance_bytes(s));
  CudaGradients gradients = device.gradients(workspace.data());
  gradients.scores = {sums.data(), kLength};
  gradients.distance_workspace = distances.data();
  cuda_attention_backward(device.attention, device.saved(), gradients);
  PHASESCOPE_CUDA(cudaDeviceSynchronize());
  Reference<double> truth(c.inputs);
  const auto* tape = std::get_if<TapeGradients>(&c.gradients.variant);
  truth.backward(c.saved.d_out, tape ? tape->d_out_state : InputTensor{});
  const std::vector<double> got = sums.values(), want = truth.score_gradients(kLength),
                            weights = weights_by_distance(truth);
  // Each weight times a difference of its row, which carries the rounding of d channels of out
  // (and of a state's), of any sign: four times their deviation, all rows alike.
  const double row = 4 * type.epsilon * std::sqrt(static_cast<double>(2 * s.head_dim));
  for (std::size_t n = 0; n < want.size(); ++n) {
    ASSERT_NEAR(got[n], want[n], row * weights[n] + 1e-5) << n;
  }
}

TEST_P(CudaSums, OfGradientsAreRight) {
  bool in_strips = true;
  for (const Problem& problem : sum_problems(GetParam())) {
    expect_gradient_sums(next_type(), problem, in_strips);
    in_strips = !in_strips;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaSums, ::testing::ValuesIn(kinds_on_cuda()),
                         [](const auto& info) { return kind_name(info.param); });

TEST(CudaChecks, SumsOfNothingAreZero) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  for (const Kind kind : {Kind::plain, Kind::cape}) {
    Problem problem{kind};
    problem.shape = {1, 2, 1, 0, 20, 16};
    Case c(problem);
    DeviceCase device(kTypes[0], c);
    const DeviceArray<double> column(std::vector<double>(40, 7)), distance(column.values()),
        square(column.values());
    CudaScoreSums sums{{.column = column.data(),
                        .distance = distance.data(),
                        .length = 20,
                        .square = square.data()}};
    const DeviceArray<char> workspace(cuda_sums_workspace(device.attention, sums));
    const DeviceArray<char> scores(cuda_score_workspace(device.attention));
    sums.workspace = workspace.data(), sums.score_workspace = scores.data();
    cuda_attention_score_sums(device.attention, sums);
    EXPECT_EQ(column.values(), std::vector<double>(40));
    EXPECT_EQ(distance.values(), std::vector<double>(40));
    EXPECT_EQ(square.values()[1], 0);
    EXPECT_EQ(square.values()[2], 7);
  }
}

TEST(CudaChecks, RefuseSumsWithoutTheirMemory) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Problem problem{Kind::cape};
  problem.shape = {1, 2, 1, 20, 20, 16};
  Case c(problem);
  DeviceCase device(kTypes[0], c);
  const DeviceArray<double> sum(40);
  CudaScoreSums sums{{.row = sum.data(), .distance = sum.data(), .length = 20}};
  const DeviceArray<char> workspace(cuda_sums_workspace(device.attention, sums));
  const auto refuses = [&] {
    EXPECT_THROW(cuda_attention_score_sums(device.attention, sums), std::invalid_argument);
  };
  refuses();
  sums.workspace = workspace.data();
  refuses();
  const DeviceArray<char> scores(cuda_score_workspace(device.attention));
  sums.score_workspace = scores.data();
  EXPECT_NO_THROW(cuda_attention_score_sums(device.attention, sums));
  sums.length = -1;
  refuses();

  device.forward();
  const DeviceArray<char> memory(cuda_backward_workspace(device.attention));
  CudaGradients gradients = device.gradients(memory.data());
  gradients.scores = {sum.data(), 20};
  EXPECT_THROW(cuda_attention_backward(device.attention, device.saved(), gradients),
               std::invalid_argument);
}

}  // namespace
}  // namespace phasescope::kernels::testing
