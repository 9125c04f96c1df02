#pragma once
// tapa.histogram: does the score favour near keys (TAPA, arXiv 2509.12635, Appendix I, Figures 1
// and 2)?
#include "analysis/near_far.h"
#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck tapa_histogram();

// What the paper says of a model's mean of Delta.
enum class BiasClaim { none_left, near_favoured, no_claim };

// none_left (TAPA): holds where the interval of the mean holds 0; near_favoured (RoPE): where it
// lies above 0. Undecided below `fewest_texts` texts, or where the interval of a claim of 0 is
// wider than half a sigma. `shuffled`: the same samples with near and far exchanged at random,
// whose mean must be 0 within its interval.
CheckResult judge_histogram(const NearFar& histogram, const NearFar& shuffled, BiasClaim claim,
                            std::int64_t fewest_texts = 50);

// Each Delta with a random sign: the distances shuffled.
Clusters shuffled_deltas(const Clusters& deltas, std::uint64_t seed);

}  // namespace phasescope::analysis
