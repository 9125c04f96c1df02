#pragma once
// The passes of each score, which pick the target that they run on: one instantiation a file
// (variants/scores.inc).

#include "kernels/attention.h"

namespace phasescope::kernels {

using ForwardEntry = void(const AttentionInputs&, const ForwardOutputs&, bool probes);
using BackwardEntry = void(const AttentionInputs&, const SavedForward&, const Gradients&);
struct RegionCall;
using RegionEntry = void(const RegionCall&);

/// Declares those that there are, and others that a score has not; forward_lanes() takes LaneInputs
/// (heads_in_lanes.h).
#define PHASESCOPE_SCORE(name, ...) \
  ForwardEntry forward_##name;      \
  BackwardEntry backward_##name;    \
  RegionEntry region_##name;
#include "kernels/variants/scores.inc"
#undef PHASESCOPE_SCORE

}  // namespace phasescope::kernels
