#include "analysis/metrics/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace phasescope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class F>
double mean_over_rows(const HeadReading& reading, std::int64_t first, F value) {
  if (reading.tokens <= first) return kNaN;
  double sum = 0;
  for (std::int64_t q = first; q < reading.tokens; ++q) sum += value(static_cast<std::size_t>(q));
  return sum / static_cast<double>(reading.tokens - first);
}

// The most that -sum A ln A of so many keys can be. Beside a sink their weights sum to some s <= 1,
// and s ln(keys) - s ln s is largest at s = keys / e, which two keys alone have below 1.
double most_entropy(std::size_t keys, bool beside_sink) {
  if (beside_sink && keys == 2) return 2 / std::numbers::e;
  return std::log1p(static_cast<double>(keys - 1));
}

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double mean_entropy(const MetricInput& input) {
  const HeadReading& r = *input.text;
  return mean_over_rows(r, r.causal ? 1 : 0, [&r](std::size_t q) { return r.entropy[q]; });
}

double mean_normalised_entropy(const MetricInput& input) {
  const HeadReading& r = *input.text;
  return mean_over_rows(r, 1, [&r](std::size_t q) {
    return r.entropy[q] / most_entropy(q + 1, !r.sink_weight.empty());
  });
}

double sink(const MetricInput& input) { return mean_of(input.text->first_key_weight); }

// NaN of a head without one.
double learned_sink(const MetricInput& input) { return mean_of(input.text->sink_weight); }

double previous_token(const MetricInput& input) {
  const DistanceSums& sums = input.text->by_distance;
  const std::size_t one = sums.bucket_of(1);
  if (one == sums.size()) return kNaN;
  return sums.weight[one] / static_cast<double>(sums.pairs[one]);
}

double mean_distance(const MetricInput& input) {
  const HeadReading& r = *input.text;
  if (r.sink_weight.empty()) return mean_of(r.mean_distance);  // every row sums to 1
  const double distance = std::accumulate(r.mean_distance.begin(), r.mean_distance.end(), 0.0);
  double weight = 0;
  for (const double sink : r.sink_weight) weight += 1 - sink;
  return weight > r.rounding * static_cast<double>(r.tokens) ? distance / weight : kNaN;
}

double mean_distance_without_first(const MetricInput& input) {
  const HeadReading& r = *input.text;
  double distance = 0, weight = 0;
  for (std::size_t q = 1; q < r.mean_distance.size(); ++q) {
    const double first = r.first_key_weight[q];
    distance += r.mean_distance[q] - first * static_cast<double>(q);
    weight += 1 - first - (r.sink_weight.empty() ? 0 : r.sink_weight[q]);
  }
  const double rounding = r.rounding * static_cast<double>(r.tokens);
  // Both sums are differences: where all that is left is at distance 0, rounding may make one
  // negative.
  return weight > rounding ? std::max(distance / weight, 0.0) : kNaN;
}

double top1_mass(const MetricInput& input) { return mean_of(input.text->top1_mass); }

double effective_keys(const MetricInput& input) {
  const HeadReading& r = *input.text;
  return mean_over_rows(r, 0, [&r](std::size_t q) { return std::exp(r.entropy[q]); });
}

double window_mass(const MetricInput& input, std::size_t number) {
  return mean_of(input.text->window_mass[number]);
}

}  // namespace phasescope::analysis
