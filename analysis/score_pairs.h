#pragma once
// Scores of chosen pairs of tokens.
#include <cstdint>
#include <vector>

#include "analysis/near_far.h"
#include "model/attention/layer_attention.h"
#include "model/attention/token_pairs.h"

namespace phasescope::analysis {

// Pairs of one head, head 0, of the first text; the lists have equal lengths.
model::PairIndices pairs_of_tokens(const std::vector<std::int64_t>& queries,
                                   const std::vector<std::int64_t>& keys);

// What a layer is asked for: samples, and the head of each; the lists have equal lengths.
struct LayerSamples {
  std::vector<PairSample> samples;
  std::vector<std::int64_t> heads;
};
// The same where the layer's attention is: each query with its near key, and with its far one.
struct PlacedSamples {
  model::TokenPairs near, far;

  std::int64_t size() const { return near.size(); }
  // These samples, all of one head.
  PlacedSamples of_head(std::int64_t head) const { return {near.of_head(head), far.of_head(head)}; }
};
// Those of all layers of a pass in one copy, so that none is made while a layer runs.
std::vector<PlacedSamples> placed_on(const at::Device& device,
                                     const std::vector<LayerSamples>& layers);

// score(near) - score(far) of each sample, by its head, the same difference of the weights (none
// where no pass has run on these scores), and whether the query sees both keys: windows and padding
// hide some.
struct NearFarDeltas {
  std::vector<double> values, weights;
  std::vector<bool> seen;
};
NearFarDeltas near_far_deltas(const model::LayerAttention& attention, const PlacedSamples& samples);

}  // namespace phasescope::analysis
