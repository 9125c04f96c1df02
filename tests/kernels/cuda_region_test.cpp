// Scores and weights of a region of the map, of the CUDA form, against the reference's full
// matrices: the cases of region_test.cpp in both 16-bit types.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/attention_cuda.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/device_case.h"
#include "tests/kernels/reference.h"

namespace phasescope::kernels::testing {
namespace {

class CudaRegions : public KindOnDevice {};

std::int64_t rows_of(const Region& region) { return region.row_end - region.row_begin; }
std::int64_t columns_of(const Region& region) { return region.col_end - region.col_begin; }

/// What the kernels give of a region.
struct RegionNumbers {
  std::vector<float> scores, weights;
};
RegionNumbers region_of(DeviceCase& device, const Region& region) {
  const auto count =
      static_cast<std::size_t>(region.head_count * rows_of(region) * columns_of(region));
  const std::vector<float> before(count, 7);  // all of it is written
  const DeviceArray<float> scores(before), weights(before);
  const DeviceArray<char> workspace(cuda_score_workspace(device.attention));
  device.attention.v = {};  // not read
  cuda_attention_region(device.attention, {region, device.saved().lse, scores.data(),
                                           weights.data(), workspace.data()});
  PHASESCOPE_CUDA(cudaDeviceSynchronize());
  return {scores.values(), weights.values()};
}

void expect_region(const HalfType& type, const Problem& problem, const Region& region,
                   bool in_strips = false) {
  SCOPED_TRACE(std::string(type.name) + " " + problem_name(problem));
  Case c(problem);
  DeviceCase device(type, c);
  if (in_strips) device.attention.cape_bytes = 1;
  device.forward();
  const Reference<double> truth(c.inputs);
  const RegionNumbers got = region_of(device, region);
  // Of a score, products of up to 256 channels; TAPA's carries the rounding of a phase of hundreds
  // of radians. A weight has its score's and the log-sum-exp's, and the fast exponential's.
  const double each = has_phase(problem.kind) ? 1e-4 : 2e-5;
  const std::int64_t rows = rows_of(region), columns = columns_of(region);
  for (std::size_t n = 0; n < got.scores.size(); ++n) {
    const auto at = static_cast<std::int64_t>(n);
    const auto from = static_cast<std::size_t>(
        truth.at(region.batch, region.head_begin + at / (rows * columns),
                 region.row_begin + at / columns % rows, region.col_begin + at % columns));
    if (std::isinf(truth.score[from])) {
      ASSERT_EQ(got.scores[n], -std::numeric_limits<float>::infinity()) << n;
      ASSERT_EQ(got.weights[n], 0.0f) << n;
    } else {
      ASSERT_NEAR(got.scores[n], truth.score[from], each) << n;
      ASSERT_NEAR(got.weights[n], truth.weight[from], 2 * each) << n;
    }
  }
}

/// Nine pairs of tiles, of which it has all of one and parts of the others.
constexpr Region kRegion{1, 1, 2, 31, 131, 17, 160};

Problem region_problem(Kind kind, bool causal = true) {
  Problem problem{kind};
  problem.shape = {2, 4, 2, 150, 170, 16};
  problem.shape.query_offset = 20;
  problem.shape.causal = causal;
  return problem;
}

TEST_P(CudaRegions, EqualTheReference) {
  expect_region(next_type(), region_problem(GetParam()), kRegion);
  expect_region(next_type(), region_problem(GetParam(), false), kRegion, true);
}

TEST_P(CudaRegions, EqualTheReferenceWithDocuments) {
  for (const Documents documents : {Documents::packed, Documents::mixed}) {
    Problem problem = region_problem(GetParam(), documents == Documents::packed);
    problem.documents = documents;
    expect_region(next_type(), problem, kRegion);
  }
}

TEST_P(CudaRegions, EqualTheReferenceWithWindowPaddingAndCap) {
  for (const bool causal : {true, false}) {
    Problem problem = region_problem(GetParam(), causal);
    problem.shape.window = 50;
    problem.padding = Padding::holes;
    problem.soft_cap = 2;
    expect_region(next_type(), problem, kRegion, causal);
  }
}

TEST_P(CudaRegions, EqualTheReferenceWithSinks) {
  Problem problem = region_problem(GetParam());
  problem.sinks = Sinks::large;
  expect_region(next_type(), problem, kRegion);
}

TEST_P(CudaRegions, EqualTheReferenceOfOnePairAndOfWideHeads) {
  expect_region(next_type(), region_problem(GetParam()), {0, 3, 1, 63, 64, 64, 65});
  if (GetParam() != Kind::plain && GetParam() != Kind::table) return;
  Problem problem{GetParam()};
  problem.shape = {1, 2, 1, 66, 70, 192, 128, true, -4};
  expect_region(next_type(), problem, {0, 1, 1, 3, 66, 0, 70});
  problem.shape = {1, 1, 1, 20, 70, 256, 0, true, 10};
  expect_region(next_type(), problem, {0, 0, 1, 0, 20, 0, 70});
}

TEST_P(CudaRegions, PassNaNOn) {
  Problem problem{GetParam()};
  problem.shape = {1, 2, 2, 70, 70, 16};
  Case c(problem);
  c.q[40 * 2 * 16] = std::numeric_limits<float>::quiet_NaN();  // row 40 of head 0
  if (!c.far_q.empty()) c.far_q[40 * (c.far_q.size() / 70)] = c.q[40 * 2 * 16];
  DeviceCase device(next_type(), c);
  device.forward();
  const RegionNumbers got = region_of(device, {0, 0, 1, 0, 70, 0, 70});
  for (std::size_t y = 0; y < 70; ++y) {
    for (std::size_t x = 0; x < 70; ++x) {
      const bool masked = x > y;
      const float score = got.scores[y * 70 + x], weight = got.weights[y * 70 + x];
      EXPECT_EQ(std::isnan(score), y == 40 && !masked) << y << " " << x;
      EXPECT_EQ(std::isnan(weight), y == 40 && !masked) << y << " " << x;
      EXPECT_EQ(std::isinf(score), masked) << y << " " << x;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaRegions, ::testing::ValuesIn(kinds_on_cuda()),
                         [](const auto& info) { return kind_name(info.param); });

TEST(CudaChecks, ARegionOfNothingAndOfOneOfTwoIsFine) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Case c(region_problem(Kind::plain));
  DeviceCase device(kTypes[0], c);
  device.forward();
  const RegionNumbers both = region_of(device, kRegion);
  const DeviceArray<float> alone(std::vector<float>(both.scores.size(), 7));
  const std::vector<float> before = alone.values();
  cuda_attention_region(device.attention, {{0, 0, 0, 5, 9, 0, 3}, nullptr, alone.data()});
  cuda_attention_region(device.attention, {{0, 0, 1, 5, 5, 0, 3}, nullptr, alone.data()});
  cuda_attention_region(device.attention, {kRegion, device.saved().lse});
  EXPECT_EQ(alone.values(), before);
  cuda_attention_region(device.attention, {kRegion, nullptr, alone.data()});
  EXPECT_EQ(alone.values(), both.scores);
  cuda_attention_region(device.attention, {kRegion, device.saved().lse, nullptr, alone.data()});
  EXPECT_EQ(alone.values(), both.weights);
}

TEST(CudaChecks, RefuseRegionsThatAreNotThere) {
  std::string reason;
  if (!cuda_available(reason)) GTEST_SKIP() << reason;
  Case c(region_problem(Kind::cape));
  DeviceCase device(kTypes[0], c);
  device.forward();
  const DeviceArray<float> to(100);
  const DeviceArray<char> workspace(cuda_score_workspace(device.attention));
  const Region fine{1, 0, 1, 0, 10, 0, 10};
  const auto refuses = [&](const Region& region, const float* lse, void* memory) {
    EXPECT_THROW(
        cuda_attention_region(device.attention, {region, lse, to.data(), to.data(), memory}),
        std::invalid_argument);
  };
  const float* lse = device.saved().lse;
  refuses({2, 0, 1, 0, 10, 0, 10}, lse, workspace.data());
  refuses({1, 4, 1, 0, 10, 0, 10}, lse, workspace.data());
  refuses({1, 0, 1, 145, 155, 0, 10}, lse, workspace.data());
  refuses({1, 0, 1, 0, 10, 165, 175}, lse, workspace.data());
  refuses(fine, nullptr, workspace.data());
  refuses(fine, lse, nullptr);
  EXPECT_NO_THROW(
      cuda_attention_region(device.attention, {fine, lse, to.data(), to.data(), workspace.data()}));
}

}  // namespace
}  // namespace phasescope::kernels::testing
