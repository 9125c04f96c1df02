#pragma once
// tapa.decay: the mean score falls with distance (TAPA, arXiv 2509.12635, Theorem 3.2).
#include <vector>

#include "analysis/theory/check.h"
#include "analysis/theory/tapa_statistics.h"

namespace phasescope::analysis {

TheoryCheck tapa_decay();

// Rows by distance, the nearest first. The amplitude's mean must be off 0 by 3 standard errors and
// the cosine's at the farthest distance within 4 of 0 (premises); it holds where the cosine's mean
// falls by more than 3 and the mean score at the farthest distance is within 4 of 0.
HeadVerdict judge_decay(const std::vector<TapaRow>& rows, const MeanError& amplitude);

}  // namespace phasescope::analysis
