#include "analysis/score_pairs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "analysis/tensors.h"

namespace phasescope::analysis {
namespace {

at::Tensor long_tensor(const std::vector<std::int64_t>& values) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), out.data_ptr<std::int64_t>());
  return out;
}

// The rows of placed samples.
enum Row : std::int64_t { kQuery, kNear, kFar, kHead };

}  // namespace

std::vector<double> scores_at(const model::LayerAttention& attention,
                              const std::vector<std::int64_t>& heads,
                              const std::vector<std::int64_t>& queries,
                              const std::vector<std::int64_t>& keys) {
  const at::NoGradGuard no_gradients;
  const at::Tensor head = long_tensor(heads);
  const model::ScoreParts parts =
      attention.pair_scores(at::zeros_like(head), head, long_tensor(queries), long_tensor(keys));
  return to_vector<double>(parts.score);
}

PlacedSamples PlacedSamples::of_head(std::int64_t head) const {
  PlacedSamples of{here.clone(), there.clone()};
  for (const at::Tensor* rows : {&of.here, &of.there}) rows->select(0, kHead).fill_(head);
  return of;
}

std::vector<PlacedSamples> placed_on(const at::Device& device,
                                     const std::vector<LayerSamples>& layers) {
  std::vector<std::int64_t> queries, near, far, heads;
  for (const LayerSamples& layer : layers) {
    for (const PairSample& sample : layer.samples) {
      queries.push_back(sample.query);
      near.push_back(sample.near_key);
      far.push_back(sample.far_key);
    }
    heads.insert(heads.end(), layer.heads.begin(), layer.heads.end());
  }
  const at::Tensor here =
      at::stack({long_tensor(queries), long_tensor(near), long_tensor(far), long_tensor(heads)});
  const at::Tensor there = here.to(device);
  std::vector<PlacedSamples> placed;
  std::int64_t begin = 0;
  for (const LayerSamples& layer : layers) {
    const std::int64_t count = std::ssize(layer.samples);
    placed.push_back({here.narrow(1, begin, count), there.narrow(1, begin, count)});
    begin += count;
  }
  return placed;
}

NearFarDeltas near_far_deltas(const model::LayerAttention& attention,
                              const PlacedSamples& samples) {
  const at::NoGradGuard no_gradients;
  const at::Tensor head = samples.there[kHead], query = samples.there[kQuery];
  const auto scores_of = [&](std::int64_t key) {
    return to_vector<double>(
        attention.pair_scores(at::zeros_like(head), head, query, samples.there[key]).score);
  };
  constexpr double kHidden = -std::numeric_limits<double>::infinity();  // a NaN is a score
  NearFarDeltas deltas{scores_of(kNear), {}, {}};
  const std::vector<double> far_scores = scores_of(kFar);
  // Scores that no pass has summed over, those at shuffled positions, have no weights.
  std::vector<double> lse;
  if (attention.lse().defined()) {
    lse = to_vector<double>(
        attention.normalisers()[0].index({samples.here[kHead], samples.here[kQuery]}));
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
