#include "analysis/questions/seed_duel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/intervals/anytime.h"
#include "analysis/intervals/student_t.h"
#include "analysis/questions/duel.h"
#include "analysis/statistics.h"

namespace phasescope::analysis {
namespace {

constexpr const char* kTwoWay = "two-way Student t";

double mean_over(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The variance of the mean of independent values.
double variance_of_mean(const std::vector<double>& values) {
  const double deviation = sample_deviation(values);
  return deviation * deviation / static_cast<double>(values.size());
}

std::vector<double> means_of_seeds(const std::vector<SeedDifferences>& seeds) {
  std::vector<double> means;
  for (const SeedDifferences& one : seeds) means.push_back(mean_over(one.by_text));
  return means;
}

std::vector<double> means_of_texts(const std::vector<SeedDifferences>& seeds) {
  std::vector<double> means(seeds.front().by_text.size());
  for (const SeedDifferences& one : seeds) {
    for (std::size_t t = 0; t < means.size(); ++t) {
      means[t] += one.by_text[t] / static_cast<double>(seeds.size());
    }
  }
  return means;
}

Duel duel_of(const std::vector<SeedDifferences>& seeds, double margin) {
  Duel duel(kSeedEffects, kFewestSeeds, margin);
  for (const double mean : means_of_seeds(seeds)) {
    if (duel.add(mean)) break;
  }
  return duel;
}

}  // namespace

Interval interval_by_text(const std::vector<SeedDifferences>& seeds, const Draws& draws) {
  if (seeds.empty()) return {};
  return mean_interval(means_of_texts(seeds), draws);
}

Interval two_way_interval(const std::vector<SeedDifferences>& seeds) {
  Interval out;
  out.unit = "seeds and texts";
  if (seeds.empty()) return out;
  const std::vector<double> by_seed = means_of_seeds(seeds), by_text = means_of_texts(seeds);
  out.mean = mean_over(by_seed);
  out.n = static_cast<std::int64_t>(std::min(by_seed.size(), by_text.size()));
  if (out.n < 2 || !std::isfinite(out.mean)) return out;
  std::vector<double> pairs;
  for (const SeedDifferences& one : seeds) {
    pairs.insert(pairs.end(), one.by_text.begin(), one.by_text.end());
  }
  const double of_seeds = variance_of_mean(by_seed), of_texts = variance_of_mean(by_text);
  const double variance =
      std::max({of_seeds + of_texts - variance_of_mean(pairs), of_seeds, of_texts});
  const double half = two_sided_t(static_cast<int>(out.n - 1)) * std::sqrt(variance);
  out.low = out.mean - half, out.high = out.mean + half;
  out.method = kTwoWay;
  return out;
}

bool seeds_decide(const std::vector<SeedDifferences>& seeds, double margin) {
  protocol::DuelResult told;
  if (seeds.empty()) return false;
  duel_of(seeds, margin).tell(told);
  return told.verdict != "undecided";
}

void tell_of_seeds(const std::vector<SeedDifferences>& seeds,
                   const std::vector<protocol::DuelUnit>& units, double margin,
                   protocol::DuelResult& result) {
  result.unit = "seeds";
  result.units = units;
  duel_of(seeds, margin).tell(result);
  if (seeds.empty()) return;
  result.texts = static_cast<std::int64_t>(seeds.front().by_text.size());
  result.by_text = interval_by_text(seeds, Draws());
  result.two_way = two_way_interval(seeds);
}

}  // namespace phasescope::analysis
