#pragma once
// tapa.histogram: does the score favour near keys (TAPA, arXiv 2509.12635, Appendix I, Figures 1
// and 2)?
#include "analysis/near_far.h"
#include "analysis/near_far_sampler.h"
#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck tapa_histogram();

// What the paper says of a model's mean of Delta.
enum class BiasClaim { none_left, near_favoured, no_claim };

// The same samples with the positions of their texts shuffled, and what the distances made of the
// mean: measured minus shuffled, paired by text.
struct ShuffledDistances {
  NearFar histogram;
  Interval difference;
};
ShuffledDistances shuffled_distances(const NearFarSpec& spec, const NearFarSamples& samples,
                                     const Draws& draws);

// none_left (TAPA): holds where the interval of the mean holds 0; near_favoured (RoPE): where it
// lies above 0. Undecided below `fewest_texts` texts, or where the interval of a claim of 0 is
// wider than half a sigma. A preference for near keys that stays when the positions are shuffled is
// none by distance: then near_favoured fails. `shuffled` is null where an encoding does not allow
// it.
CheckResult judge_histogram(const NearFar& histogram, const ShuffledDistances* shuffled,
                            BiasClaim claim, std::int64_t fewest_texts = 50);

}  // namespace phasescope::analysis
