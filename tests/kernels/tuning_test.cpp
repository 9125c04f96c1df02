// What the forward pass does by the processor: the same numbers, taken in the same order.
#include "kernels/cpu/tuning.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/kernels/cases.h"

namespace phasescope::kernels::testing {
namespace {

class EveryTuning : public ::testing::TestWithParam<Kind> {
 protected:
  ~EveryTuning() override { set_forward_tuning({}); }
};

std::vector<float> results_with(const Problem& problem, const ForwardTuning& tuning) {
  set_forward_tuning(tuning);
  Case c(problem);
  c.forward();
  std::vector<float> all = c.out;
  all.insert(all.end(), c.lse.begin(), c.lse.end());
  return all;
}

TEST_P(EveryTuning, GivesTheSameBits) {
  for (const std::int64_t dim : {24, 64, 80}) {
    Problem problem{GetParam()};
    problem.shape = {2, 4, 2, 333, 437, dim, 0, true, 104};
    problem.padding = Padding::holes;
    const std::vector<float> plain = results_with(problem, {});
    for (const ForwardTuning tuning :
         {ForwardTuning{true, false}, ForwardTuning{false, true}, ForwardTuning{true, true}}) {
      const std::vector<float> tuned = results_with(problem, tuning);
      EXPECT_EQ(std::memcmp(tuned.data(), plain.data(), plain.size() * sizeof(float)), 0)
          << dim << tuning.fetches_ahead << tuning.packs_values;
    }
  }
}

// What was measured to pay, or not to, on the two processors of tuning.cpp.
TEST(Tuning, IsThatOfTheProcessorsThatWereMeasured) {
  const Processor intel_6_207{64, 2, 49152 / 12}, amd_25_17{64, 1, 32768 / 8};
  for (const std::int64_t row_bytes : {0, 512, 4095, 4096, 16384}) {
    const ForwardTuning intel = forward_tuning(intel_6_207, row_bytes);
    EXPECT_TRUE(intel.fetches_ahead) << row_bytes;
    EXPECT_EQ(intel.packs_values, row_bytes >= 4096) << row_bytes;
    const ForwardTuning amd = forward_tuning(amd_25_17, row_bytes);
    EXPECT_FALSE(amd.fetches_ahead || amd.packs_values) << row_bytes;
  }
  // Two units of half the width, and a processor of which nothing is known.
  EXPECT_FALSE(forward_tuning({32, 2, 4096}, 16384).fetches_ahead);
  EXPECT_FALSE(forward_tuning({}, 16384).fetches_ahead);
}

// A speed, of which a test asks for no more than that it is one: another thread of the core may
// multiply all the while.
TEST(Tuning, FindsWhatTheProcessorAtHandHas) {
  const Processor here = this_processor();
  EXPECT_GE(here.l1_way, 1024);
  if (here.vector_bytes == 0) {
    EXPECT_EQ(here.vectors_a_cycle, 0);
    GTEST_SKIP() << "its vectors are narrower than any that are measured";
  }
  EXPECT_GT(here.vectors_a_cycle, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryTuning, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace phasescope::kernels::testing
