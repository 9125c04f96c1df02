#pragma once
// rope.local_gap: near keys are favoured over keys past 1/theta_0 (TAPA, arXiv 2509.12635, Theorem
// 2.2 of the first version, 2.3 of the last).
#include <functional>
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/rope_sums.h"

namespace phasescope::analysis {

TheoryCheck rope_local_gap();

// The paper's distances; theta_0 = e^-ln_base.
struct GapCase {
  double mu = 1, nu = 0;
  double ln_base = 0, near = 0, far = 0;
};
// sgn(mu) (mu (C(near) - C(far)) + nu (S(near) - S(far))).
double gap_between(const GapCase& gap, const CosSin& near, const CosSin& far);
// In the limit of many planes, and of D/2 planes.
double limit_gap(const GapCase& gap);
double finite_gap(const GapCase& gap, std::int64_t dim);

// theta_0 = (2/3)^256, D = 512, near = 2, far = 3^255: every plane is back at phase 0.
double counterexample_gap();

// Cases that satisfy the premises; the gap of each must exceed |mu| / 8. `gap` is exchanged by
// tests for wrong ones.
CheckResult judge_gaps(const std::vector<GapCase>& cases,
                       const std::function<double(const GapCase&)>& gap);

}  // namespace phasescope::analysis
