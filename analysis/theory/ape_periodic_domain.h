#pragma once
// ape.periodic: W^n = I, and no earlier power is (APE, arXiv 2312.16045, Section 3.5, corrected).
#include <cstdint>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_periodic();

struct PeriodDistances {
  double whole = 0;    // |W^n - I|, spectral
  double nearest = 0;  // the smallest before n
  std::int64_t nearest_at = 0;
  std::int64_t true_period = 0;  // the smallest power that is I, up to rounding; 0: none up to n
  std::vector<double> by_power;  // of 1 .. n
};
PeriodDistances period_distances(const at::Tensor& w, std::int64_t period);

// n / gcd(turns, n): the period that planes of `turns` whole turns in n steps have.
std::int64_t period_of_turns(const std::vector<std::int64_t>& turns, std::int64_t n);

CheckResult judge_period(const Matrices& matrices, std::int64_t period);

}  // namespace phasescope::analysis
