#include "analysis/adaptive_bias.h"

#include <ATen/ATen.h>

#include <cmath>
#include <set>

#include "analysis/score_pairs.h"
#include "analysis/statistics.h"
#include "analysis/tensors.h"

namespace phasescope::analysis {
namespace {

// A context's squares about the mean over contexts, over n - 1; and the variance over distances
// plus its derivative by the mean bias, 2 (mean_d - mean of all) / D, times how far the context is
// off.
std::vector<Part> share_parts(const AdaptiveBias& bias, const AdaptiveHead& head) {
  const auto contexts = static_cast<double>(bias.values.size());
  const auto distances = static_cast<double>(head.mean.size());
  const double middle = moments_of(head.mean).mean;
  std::vector<Part> parts;
  for (const std::vector<double>& row : bias.values) {
    Part part{0, head.over_distance};
    for (std::size_t d = 0; d < row.size(); ++d) {
      const double off = row[d] - head.mean[d];
      part.sum += off * off * contexts / (contexts - 1) / distances;
      part.weight += 2 * (head.mean[d] - middle) * off / distances;
    }
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

protocol::Interval contexts_share(const std::vector<Part>& parts, const Draws& draws) {
  Part mean;
  for (const Part& part : parts) {
    mean.sum += part.sum / static_cast<double>(parts.size());
    mean.weight += part.weight / static_cast<double>(parts.size());
  }
  const double ratio = mean.sum / mean.weight;
  std::vector<double> values;
  for (const Part& part : parts) {
    values.push_back(ratio + (part.sum - ratio * part.weight) / mean.weight);
  }
  return counted_in("contexts", bounded(kFromZero, mean_interval(values, draws)));
}

AdaptiveHead adaptive_head(const AdaptiveBias& bias, std::uint64_t seed) {
  AdaptiveHead out;
  std::vector<double> ln, means, slopes;
  for (const double l : bias.distance) ln.push_back(std::log(l));
  for (std::size_t d = 0; d < ln.size(); ++d) {
    std::vector<double> column;
    for (const std::vector<double>& row : bias.values) column.push_back(row[d]);
    out.over_contexts += std::pow(sample_deviation(column), 2) / static_cast<double>(ln.size());
    means.push_back(moments_of(column).mean);
    out.sd.push_back(sample_deviation(column));
  }
  out.mean = means;
  out.over_distance = std::pow(moments_of(means).sigma, 2);
  out.share = share_parts(bias, out);
  for (const std::vector<double>& row : bias.values) slopes.push_back(fit_line(ln, row).slope);
  out.slope = counted_in("contexts", mean_interval(slopes, Draws(seed)));
  if (slopes.size() < kFewestContexts) return out;
  out.kind = out.slope.high && *out.slope.high < 0 ? "local"
             : out.slope.low && *out.slope.low > 0 ? "anti-local"
                                                   : "flat";
  return out;
}

std::vector<std::int64_t> spread_distances(std::int64_t query) {
  constexpr int kDistances = 24;
  std::set<std::int64_t> out;
  for (int n = 0; n < kDistances; ++n) {
    out.insert(std::llround(std::pow(static_cast<double>(query), n / double{kDistances - 1})));
  }
  return {out.begin(), out.end()};
}

namespace {

model::PairIndices pairs_at(std::int64_t query, const std::vector<std::int64_t>& distances) {
  std::vector<std::int64_t> keys;
  for (const std::int64_t distance : distances) keys.push_back(query - distance);
  return pairs_of_tokens(std::vector<std::int64_t>(keys.size(), query), keys);
}

}  // namespace

SpreadKeys::SpreadKeys(std::int64_t of, const at::Device& device)
    : query(of), distances(spread_distances(of)), pairs(pairs_at(of, distances), device) {}

void add_biases(const model::LayerAttention& attention, const SpreadKeys& keys,
                std::map<LayerHead, AdaptiveBias>& heads) {
  for (std::int64_t head = 0; head < attention.heads(); ++head) {
    const auto parts = attention.pair_scores(keys.pairs.of_head(head));
    AdaptiveBias& bias = heads[{attention.layer(), head}];
    bias.distance.assign(keys.distances.begin(), keys.distances.end());
    bias.values.push_back(
        to_vector<double>(parts.score.to(at::kDouble) - parts.content.to(at::kDouble)));
  }
}

}  // namespace phasescope::analysis
