#pragma once
// The larger of two residuals, where std::max would forget a NaN.
#include <algorithm>
#include <cmath>

namespace phasescope::analysis {

// NaN if either is: a check must not pass on numbers that are none.
inline double worst_of(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}

}  // namespace phasescope::analysis
