#include "analysis/metrics/repeated.h"

#include <limits>

#include "analysis/random.h"

namespace phasescope::analysis {
namespace {

// Sum of A[q, q - distance] over the valid q; NaN where the reading has no bucket for it.
double diagonal_sum(const HeadReading& reading, std::int64_t distance) {
  const std::size_t b = reading.by_distance.bucket_of(distance);
  if (b == reading.by_distance.size()) return std::numeric_limits<double>::quiet_NaN();
  return reading.by_distance.weight[b];
}

}  // namespace

double duplicate_token(const MetricInput& input) {
  if (input.repeated == nullptr) return std::numeric_limits<double>::quiet_NaN();
  return diagonal_sum(*input.repeated, input.period) / static_cast<double>(input.period);
}

double induction(const MetricInput& input) {
  if (input.repeated == nullptr) return std::numeric_limits<double>::quiet_NaN();
  const auto last_of_first_copy = static_cast<std::size_t>(input.period - 1);
  const double sum = diagonal_sum(*input.repeated, input.period - 1) -
                     input.repeated->first_key_weight[last_of_first_copy];
  return sum / static_cast<double>(input.period);
}

std::vector<std::int64_t> repeated_tokens(std::int64_t period, std::optional<std::int64_t> left_out,
                                          std::int64_t vocabulary, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(2 * period));
  for (std::int64_t i = 0; i < period; ++i) {
    std::int64_t id = random.below(vocabulary - (left_out ? 1 : 0));
    if (left_out && id >= *left_out) ++id;
    ids[i] = ids[i + period] = id;
  }
  return ids;
}

}  // namespace phasescope::analysis
