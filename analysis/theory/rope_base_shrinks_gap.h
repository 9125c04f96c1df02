#pragma once
// rope.base_shrinks_gap: a larger base, or positions brought closer, leave less of the distance
// bias (TAPA, arXiv 2509.12635, Theorem 2.3 of the first version, 2.4 of the last).
#include <functional>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/rope_sums.h"

namespace phasescope::analysis {

TheoryCheck rope_base_shrinks_gap();

// A model's distances, far > near >= 1.
struct BaseGapCase {
  std::int64_t dim = 128;
  double near = 3, far = 2000;
};

// C and S of a distance under a base of 10^`log10_base`: exchanged by tests for wrong ones.
using SumsOfBase = std::function<CosSin(double distance, double log10_base, std::int64_t dim)>;
CosSin sums_of_base(double distance, double log10_base, std::int64_t dim);

// |C(near) - C(far)| <= (ln far + 1/8)/ln base + 5/(2D), |S| alike <= (ln far + 1/2)/ln base + 3/D.
CosSin base_gap_bounds(const BaseGapCase& gap, double log10_base);
// What C tends to, (cos lambda + D/2 - 1)/D, and how near it is: lambda^2 q / (2D (1 - q)),
// q = base^(-4/D).
double base_limit(double distance, std::int64_t dim);
double base_limit_bound(double distance, std::int64_t dim, double log10_base);
// |C(near/f) - C(far/f)| <= (far/f)^2 / 4: positions divided by f.
double interpolated_gap(const BaseGapCase& gap, double log10_base, double factor);

CheckResult judge_base_gap(const BaseGapCase& gap, const SumsOfBase& sums);

}  // namespace phasescope::analysis
