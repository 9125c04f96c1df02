#pragma once
// tapa.linear_phase: what falls under the linear phase, and what it cannot do (TAPA, arXiv
// 2509.12635, Section 5.7 and Appendix J).
#include <cstdint>
#include <vector>

#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck tapa_linear_phase();

// exp(-(2 pi lambda^alpha sigma)^2), the same for every n; and its slope in ln lambda.
double linear_mean_cosine(double lambda, double alpha, double sigma);
double linear_slope(double lambda, double alpha, double sigma);
// Mean over Gaussian keys given a query with |q_P| = norm and coordinates of sum `sum`.
double quadratic_given_query(double lambda, double alpha, double sigma, double norm,
                             std::int64_t dims);
double linear_given_query(double lambda, double alpha, double sigma, double sum, std::int64_t dims);

// cos of a phase over queries and keys at one distance, (n, n): its third singular value over its
// first. A matrix of rank 2 gives rounding.
double third_singular_value(const std::vector<double>& cosines, std::int64_t size);

// q_P, k_P (size, dims) row-major; cos(2 pi lambda^alpha phi) of all pairs.
std::vector<double> phase_cosines(const std::vector<double>& q, const std::vector<double>& k,
                                  std::int64_t dims, double turn, bool linear);

// The rank test, and how the mean cosine falls between two distances.
CheckResult judge_linear_phase(double third_over_first, double near_cosine, double far_cosine,
                               double z);

}  // namespace phasescope::analysis
