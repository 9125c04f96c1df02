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

INSTANTIATE_TEST_SUITE_P(Kernels, EveryTuning, ::testing::ValuesIn(all_kinds()),
                         [](const auto& info) { return kind_name(info.param); });

}  // namespace
}  // namespace phasescope::kernels::testing
