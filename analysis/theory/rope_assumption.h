#pragma once
// rope.assumption: the coefficients of RoPE's planes keep their means over distance (TAPA, arXiv
// 2509.12635, Assumption 2.1 and Appendix H).
#include <cstdint>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/tapa_statistics.h"

namespace phasescope::analysis {

TheoryCheck rope_assumption();

// Pairs in the order of their distances: A_d and B_d of each plane, row-major (pairs, planes).
struct CoefficientPairs {
  std::vector<double> distance;
  std::vector<double> a, b;
  std::vector<std::int64_t> text = {};  // empty where all are independent
  std::int64_t planes = 0;
};

// By tenth of the pairs.
struct CoefficientBins {
  std::vector<double> distance;   // middle
  std::vector<MeanError> mu, nu;  // means over pairs and planes
  std::vector<double> sums;       // mean of sum_d |A_d|
  std::vector<double> mu_by_plane, sd_by_plane;
  double smallest = 0;     // |mu| of a bin
  double largest_sum = 0;  // of |A_d| + |B_d| over planes
};
CoefficientBins coefficient_bins(const CoefficientPairs& pairs);

// Every tenth's mean is more than 3 standard errors from 0 with one sign, and the last tenth's sum
// of |A_d| at most 3 times the first's.
HeadVerdict judge_coefficients(const CoefficientBins& bins);

}  // namespace phasescope::analysis
