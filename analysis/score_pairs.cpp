#include "analysis/score_pairs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/tensors.h"

namespace phasescope::analysis {
namespace {

at::Tensor long_tensor(const std::vector<std::int64_t>& values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), out.data_ptr<std::int64_t>());
  return out;
}

}  // namespace

model::PairIndices pairs_of_tokens(const std::vector<std::int64_t>& queries,
                                   const std::vector<std::int64_t>& keys) {
  const at::Tensor query = long_tensor(queries), none = at::zeros_like(query);
  return {none, none, query, long_tensor(keys)};
}

std::vector<PlacedSamples> placed_on(const at::Device& device,
                                     const std::vector<LayerSamples>& layers) {
  std::vector<model::PairIndices> lists;  // of each layer the near keys, then the far ones
  for (const LayerSamples& layer : layers) {
    std::vector<std::int64_t> queries, near, far;
    for (const PairSample& sample : layer.samples) {
      queries.push_back(sample.query);
      near.push_back(sample.near_key);
      far.push_back(sample.far_key);
    }
    for (const auto& keys : {near, far}) {
      lists.push_back(pairs_of_tokens(queries, keys));
      lists.back().head = long_tensor(layer.heads);
    }
  }
  const std::vector<model::TokenPairs> pairs = model::TokenPairs::of_all(lists, device);
  std::vector<PlacedSamples> placed;
  for (std::size_t n = 0; n < pairs.size(); n += 2) placed.push_back({pairs[n], pairs[n + 1]});
  return placed;
}

NearFarDeltas near_far_deltas(const model::LayerAttention& attention,
                              const PlacedSamples& samples) {
  const at::NoGradGuard no_gradients;
  const auto scores_of = [&](const model::TokenPairs& pairs) {
    return to_vector<double>(attention.pair_scores(pairs).score);
  };
  constexpr double kHidden = -std::numeric_limits<double>::infinity();  // a NaN is a score
  NearFarDeltas deltas{scores_of(samples.near), {}, {}};
  const std::vector<double> far_scores = scores_of(samples.far);
  // Scores that no pass has summed over, those at shuffled positions, have no weights.
  std::vector<double> lse;
  if (attention.lse().defined()) {
    const model::PairIndices& here = samples.near.here();
    lse = to_vector<double>(attention.normalisers()[0].index({here.head, here.query}));
  }
  for (std::size_t s = 0; s < far_scores.size(); ++s) {
    deltas.seen.push_back(deltas.values[s] != kHidden && far_scores[s] != kHidden);
    if (!lse.empty()) {
      deltas.weights.push_back(std::exp(deltas.values[s] - lse[s]) -
                               std::exp(far_scores[s] - lse[s]));
    }
    deltas.values[s] -= far_scores[s];
  }
  return deltas;
}

}  // namespace phasescope::analysis
