#pragma once
// tape.wy: products of reflections as one sum (TAPE, arXiv 2501.00712, Lemmas B.7 and B.8).
#include <vector>

#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck tape_wy();

using Vectors = std::vector<std::vector<double>>;

// w_i = xi_i - sum_{j<i} (xi_j.xi_i) w_j; with `diagonal` what (I + tril(Xi Xi^T))^-1 Xi gives,
// the paper's matrix as printed, which has its diagonal.
Vectors wy_factors(const Vectors& xi, bool diagonal = false);
// prod_i (I - xi_i xi_i^T) row-major, and I - sum_j w_j xi_j^T.
std::vector<double> product_of_reflections(const Vectors& xi);
std::vector<double> wy_form(const Vectors& xi, const Vectors& w);

double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace phasescope::analysis
