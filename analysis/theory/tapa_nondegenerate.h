#pragma once
// tapa.nondegenerate: the scores keep their variance at any distance (TAPA, arXiv 2509.12635,
// Theorem 3.3).
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/tapa_statistics.h"

namespace phasescope::analysis {

TheoryCheck tapa_nondegenerate();

// First the equation Var = c/2 + E[amplitude^2 cos 2 angle]/2 - (E score)^2, exact on any pairs;
// then, at distances where its last two terms are within 3 standard errors, Var/(c/2) plus 3
// standard errors must reach 1.
HeadVerdict judge_variance(const std::vector<TapaRow>& rows);

}  // namespace phasescope::analysis
