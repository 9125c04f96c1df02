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

NearFarDeltas near_far_deltas(const model::LayerAttention& attention,
                              const std::vector<PairSample>& samples,
                              const std::vector<std::int64_t>& heads) {
  std::vector<std::int64_t> queries, near, far;
  for (const PairSample& sample : samples) {
    queries.push_back(sample.query);
    near.push_back(sample.near_key);
    far.push_back(sample.far_key);
  }
  constexpr double kHidden = -std::numeric_limits<double>::infinity();  // a NaN is a score
  NearFarDeltas deltas{scores_at(attention, heads, queries, near), {}, {}};
  const std::vector<double> far_scores = scores_at(attention, heads, queries, far);
  const at::NoGradGuard no_gradients;
  // Scores that no pass has summed over, those at shuffled positions, have no weights.
  std::vector<double> lse;
  if (attention.lse().defined()) {
    lse = to_vector<double>(
        attention.normalisers()[0].index({long_tensor(heads), long_tensor(queries)}));
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
