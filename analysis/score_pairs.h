#pragma once
// Scores of chosen pairs of tokens.
#include <cstdint>
#include <vector>

#include "analysis/near_far.h"
#include "model/attention/layer_attention.h"

namespace phasescope::analysis {

// Scores of (head, query, key) triples of batch entry 0; the lists have equal lengths.
std::vector<double> scores_at(const model::LayerAttention& attention,
                              const std::vector<std::int64_t>& heads,
                              const std::vector<std::int64_t>& queries,
                              const std::vector<std::int64_t>& keys);

// score(near) - score(far) of each sample, by the head given for it, the same difference of the
// weights (none where no pass has run on these scores), and whether the query sees both keys:
// windows and padding hide some.
struct NearFarDeltas {
  std::vector<double> values, weights;
  std::vector<bool> seen;
};
NearFarDeltas near_far_deltas(const model::LayerAttention& attention,
                              const std::vector<PairSample>& samples,
                              const std::vector<std::int64_t>& heads);

}  // namespace phasescope::analysis
