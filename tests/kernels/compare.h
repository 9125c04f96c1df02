#pragma once
// "Right first": an error of at most twice the plain float32 operation's, plus a rounding floor.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace phasescope::kernels::testing {

/// `floor` is in units of float32 rounding (2^-24) of the largest true value (at least `scale`):
/// the plain operation may be right by luck in a small problem, a result can still not be better
/// than the rounding of its own arithmetic. Written so that NaN fails; -inf must match exactly.
inline void expect_close(const std::string& what, const std::vector<float>& got,
                         const std::vector<float>& plain, const std::vector<double>& truth,
                         double floor = 8, double scale = 0) {
  ASSERT_EQ(got.size(), truth.size()) << what;
  double largest = scale, plain_error = 0, error = 0;
  std::size_t worst = 0;
  for (std::size_t n = 0; n < truth.size(); ++n) {
    if (std::isinf(truth[n])) {
      ASSERT_EQ(static_cast<double>(got[n]), truth[n]) << what << " at " << n;
      continue;
    }
    ASSERT_TRUE(std::isfinite(truth[n])) << what << " at " << n << ": no truth to compare with";
    ASSERT_TRUE(std::isfinite(got[n])) << what << " at " << n;
    largest = std::max(largest, std::abs(truth[n]));
    plain_error = std::max(plain_error, std::abs(static_cast<double>(plain[n]) - truth[n]));
    if (std::abs(static_cast<double>(got[n]) - truth[n]) > error) {
      error = std::abs(static_cast<double>(got[n]) - truth[n]);
      worst = n;
    }
  }
  ASSERT_TRUE(std::isfinite(plain_error)) << what << ": the plain operation has no bound";
  const double bound = 2 * plain_error + floor * 0x1p-24 * largest;
  EXPECT_TRUE(error <= bound) << what << ": error " << error << " against " << plain_error
                              << " of the plain operation, bound " << bound << ", largest "
                              << largest << ", at " << worst << ": " << got[worst] << " for "
                              << truth[worst];
}

}  // namespace phasescope::kernels::testing
