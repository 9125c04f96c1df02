#pragma once
// ape.orthogonal: maps keep norms, and their powers nearly do (APE, arXiv 2312.16045, Section 3.1).
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/orthogonal_matrices.h"

namespace phasescope::analysis {

TheoryCheck ape_orthogonal();

// Largest entry of (W^p)^T W^p - I.
double defect_of_power(const at::Tensor& w, std::int64_t power);

// At p = 1 at most 1e-12; at every other power at most 1.1 p times that, and the rounding of its
// squarings.
CheckResult judge_orthogonal(const Matrices& matrices);

}  // namespace phasescope::analysis
