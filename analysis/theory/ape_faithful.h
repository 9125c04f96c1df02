#pragma once
// ape.faithful: different positions have different maps (APE, arXiv 2312.16045, Section 3.1,
// footnote 1, corrected).
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck ape_faithful();

// |W^p - I| from the angles of W's planes, no powers needed: the spectral norm
// 2 max |sin(p phi / 2)| and Frobenius's sqrt(8 sum sin^2).
double return_distance(const std::vector<double>& angles, std::int64_t p);
double return_distance_frobenius(const std::vector<double>& angles, std::int64_t p);

struct NearestReturn {
  double distance = 3;
  std::int64_t at = 0;
  std::int64_t exact = 0;  // the first p whose distance is rounding, 8 m p 2^-53; 0 for none
};
// Over p = 1 .. last.
NearestReturn nearest_return(const std::vector<double>& angles, std::int64_t last);
// Whatever the angles, some p <= last is this near (Dirichlet): 2 sin(pi last^(-1/planes)).
double dirichlet_bound(std::int64_t last, std::size_t planes);

// Angles of several heads up to `last`: holds where no power returns.
CheckResult judge_faithful(const std::vector<std::vector<double>>& heads, std::int64_t last);

}  // namespace phasescope::analysis
