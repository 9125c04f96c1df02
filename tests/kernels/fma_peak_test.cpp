// The multiply-add peak is a real rate, and not that of a loop that the compiler has thrown away.

#include "kernels/fma_peak.h"

#include <gtest/gtest.h>

namespace phasescope::kernels::testing {
namespace {

TEST(FmaPeak, LiesWithinWhatAnyProcessorCanDo) {
  // Two units of 16 lanes, a multiply and an add each, at 6 GHz.
  constexpr double most_of_a_core = 2.0 * 16 * 2 * 6e9;
  const double one = fma_peak(1), two = fma_peak(2);
  EXPECT_GT(one, 1e8);
  EXPECT_LT(one, most_of_a_core);
  EXPECT_GT(two, 0.5 * one);
  EXPECT_LT(two, 2 * most_of_a_core);
}

}  // namespace
}  // namespace phasescope::kernels::testing
