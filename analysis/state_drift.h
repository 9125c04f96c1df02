#pragma once
// How sure the drift of a position state is.
#include <ATen/core/Tensor.h>

#include "protocol/messages/provenance.h"

namespace phasescope::analysis {

// ||moved|| / ||first|| with an interval by 8 blocks of the text's tokens: that of the ratio of the
// squared norms, which are sums over tokens, and the roots of its ends. `moved` is how far a state
// (1, H, N, 2, d/2) of one text has moved from `first` (1, H or 1, N, 2, d/2); the norms are over
// all of them. No interval below 64 tokens; of a state that has not moved its width is 0.
protocol::Interval interval_of_drift(const at::Tensor& moved, const at::Tensor& first);

}  // namespace phasescope::analysis
