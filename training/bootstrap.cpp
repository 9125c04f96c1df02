#include "training/bootstrap.h"

#include <algorithm>
#include <cmath>

#include "training/counter_random.h"

namespace phasescope::training {
namespace {

constexpr std::uint64_t kResamples = 1000;
constexpr std::uint64_t kBootstrapStream = 4;

double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

RatioInterval text_bootstrap(const std::vector<TextSum>& texts, std::uint64_t seed) {
  TextSum all;
  for (const TextSum& text : texts) {
    all.sum += text.sum;
    all.weight += text.weight;
  }
  const double nan = std::nan("");
  if (!(all.weight > 0)) return {nan, nan, nan};
  const double mean = all.sum / all.weight;
  if (texts.size() < 2) return {mean, nan, nan};

  const CounterRandom random(seed, kBootstrapStream);
  std::vector<double> means;
  for (std::uint64_t resample = 0; resample < kResamples; ++resample) {
    TextSum drawn;
    for (std::uint64_t i = 0; i < texts.size(); ++i) {
      const auto pick = random.below(texts.size(), resample * texts.size() + i);
      drawn.sum += texts[pick].sum;
      drawn.weight += texts[pick].weight;
    }
    if (drawn.weight > 0) means.push_back(drawn.sum / drawn.weight);
  }
  std::sort(means.begin(), means.end());
  return {mean, percentile(means, 0.025), percentile(means, 0.975)};
}

}  // namespace phasescope::training
