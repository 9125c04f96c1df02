#include "analysis/intervals/intervals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/intervals/smooth.h"

namespace phasescope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// Of a range: what float32 rounding may make of a row's weights, or of a difference that is 0.
constexpr double kRounding = 1e-6;

Interval without(double value, std::size_t units) {
  return {value, {}, {}, static_cast<std::int64_t>(units)};
}

Interval reaching(double value, const Reach& reach, std::size_t units, const char* method) {
  if (!std::isfinite(value) || !std::isfinite(reach.error)) return without(value, units);
  const auto n = static_cast<std::int64_t>(units);
  if (reach.error == 0) return {value, value, value, n, method::kConstant};
  return {value, value - reach.below, value + reach.above, n, method};
}

// (sum, weight): their quotient.
Slope<2> quotient(const std::array<double, 2>& totals) {
  const double value = totals[0] / totals[1];
  return {value, {1 / totals[1], -value / totals[1]}};
}

std::vector<Part> weighted(std::span<const Part> parts) {
  std::vector<Part> kept;
  for (const Part& part : parts) {
    if (!(part.weight <= 0)) kept.push_back(part);  // a NaN is no absence
  }
  return kept;
}

double quotient_of(std::span<const Part> parts) {
  double sum = 0, weight = 0;
  for (const Part& part : parts) sum += part.sum, weight += part.weight;
  return weight != 0 ? sum / weight : kNaN;
}

// Sums and weights with the mean taken out of the sums, so that no digits of a spread are lost.
UnitSums<2> residuals_of(std::span<const Part> parts, double mean) {
  UnitSums<2> sums;
  for (const Part& part : parts) {
    sums[0].push_back(part.sum - mean * part.weight);
    sums[1].push_back(part.weight);
  }
  return sums;
}

template <std::size_t K>
Reach reach_of(const UnitSums<K>& sums, Statistic<K> statistic, const Draws& draws) {
  return sums[0].size() < kBootstrapFrom ? jackknife_reach(sums, statistic)
                                         : bootstrap_reach(sums, statistic, draws);
}

bool all_equal(std::span<const Part> parts) {
  const auto value = [](const Part& part) { return part.sum / part.weight; };
  return std::ranges::all_of(parts,
                             [&](const Part& part) { return value(part) == value(parts[0]); });
}

// `student`, `bootstrap`: what these are called here.
Interval quotient_interval(std::span<const Part> parts, const Draws& draws, const char* student,
                           const char* bootstrap) {
  const double mean = quotient_of(parts);
  if (parts.size() < 2 || !std::isfinite(mean)) return without(mean, parts.size());
  if (all_equal(parts)) {
    const double value = parts[0].sum / parts[0].weight;
    return reaching(value, {}, parts.size(), method::kConstant);
  }
  const Reach reach = reach_of(residuals_of(parts, mean), quotient, draws);
  return reaching(mean, reach, parts.size(), reach.bootstrap ? bootstrap : student);
}

// Wilson's interval of a share of `samples` independent samples, z standard errors wide. Its ends
// at shares of 0 and 1 are these, whatever rounding makes of them.
Interval wilson(double share, double samples, double z, std::size_t units) {
  const double grown = z * z / samples;
  const double centre = (share + grown / 2) / (1 + grown);
  const double half =
      z / (1 + grown) * std::sqrt(share * (1 - share) / samples + grown / (4 * samples));
  const double low = share <= 0 ? 0 : std::max(0.0, centre - half);
  const double high = share >= 1 ? 1 : std::min(1.0, centre + half);
  return {share, low, high, static_cast<std::int64_t>(units), method::kWilson};
}

Interval share_with(double share, double error, std::size_t units) {
  if (units < 2 || !std::isfinite(share) || !std::isfinite(error)) return without(share, units);
  const bool extreme = share <= 0 || share >= 1;
  if (!extreme && error == 0) return reaching(share, {}, units, method::kConstant);
  const double samples =
      extreme ? static_cast<double>(units) : share * (1 - share) / (error * error);
  return wilson(share, samples, two_sided_t(static_cast<int>(units) - 1), units);
}

// Of the blocks of one text. Those of one share, but for rounding, are no sample that is known for
// certain.
Interval share_of_blocks(double share, double error) {
  Interval out = error <= 1e-12 * share ? wilson(share, kBlocks, two_sided_t(kBlocks - 1), kBlocks)
                                        : share_with(share, error, kBlocks);
  if (out.known()) out.method = method::kBlocks;
  return counted_in("blocks", out);
}

// Each end of the interval as far from the logit of the value as it is from the value, times the
// logit's derivative there.
Interval of_the_logit(const ValueRange& range, Interval interval) {
  const double width = range.high - range.low, u = (interval.mean - range.low) / width;
  const auto moved = [&](double end) {
    const double logit = std::log(u / (1 - u)) + (end - interval.mean) / (width * u * (1 - u));
    return range.low + width / (1 + std::exp(-logit));
  };
  interval.low = moved(*interval.low), interval.high = moved(*interval.high);
  interval.method += method::kOfTheLogit;
  return interval;
}

double mean_of_rows(std::span<const double> rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size());
}

// ---- Shapes --------------------------------------------------------------------------------------

// (n, sum x): the mean.
Slope<2> mean_of_sums(const std::array<double, 2>& s) {
  const double mean = s[1] / s[0];
  return {mean, {-mean / s[0], 1 / s[0]}};
}

// (n, sum x, sum x^2): the standard deviation.
Slope<3> sigma_of_sums(const std::array<double, 3>& s) {
  const double mean = s[1] / s[0], square = s[2] / s[0];
  const double sigma = std::sqrt(std::max(0.0, square - mean * mean));
  const double by_square = 1 / (2 * sigma), by_mean = -mean / sigma;
  return {sigma, {-(by_mean * mean + by_square * square) / s[0], by_mean / s[0], by_square / s[0]}};
}

// (n, sum x, sum x^2, sum x^3): the skewness.
Slope<4> skewness_of_sums(const std::array<double, 4>& s) {
  const double m = s[1] / s[0], square = s[2] / s[0], cube = s[3] / s[0];
  const double variance = std::max(0.0, square - m * m);
  const double third = cube - 3 * m * square + 2 * m * m * m;
  const double power = std::pow(variance, 1.5), skewness = third / power;
  const double by_variance = -1.5 * skewness / variance;
  const double by_m = (6 * m * m - 3 * square) / power - 2 * m * by_variance;
  const double by_square = -3 * m / power + by_variance, by_cube = 1 / power;
  return {skewness,
          {-(by_m * m + by_square * square + by_cube * cube) / s[0], by_m / s[0], by_square / s[0],
           by_cube / s[0]}};
}

template <std::size_t K>
UnitSums<K> power_sums(const std::vector<std::vector<double>>& units, double centre) {
  UnitSums<K> sums;
  for (const auto& unit : units) {
    std::array<double, K> unit_sums{};
    for (const double x : unit) {
      double power = 1;
      for (double& sum : unit_sums) sum += power, power *= x - centre;
    }
    for (std::size_t k = 0; k < K; ++k) sums[k].push_back(unit_sums[k]);
  }
  return sums;
}

}  // namespace

Interval mean_interval(std::span<const double> values, const Draws& draws) {
  std::vector<Part> parts;
  for (const double value : values) parts.push_back({value, 1});
  return quotient_interval(parts, draws, method::kStudentT, method::kBootstrapT);
}

Interval ratio_interval(std::span<const Part> parts, const Draws& draws) {
  return quotient_interval(weighted(parts), draws, method::kJackknifeT, method::kRatioBootstrapT);
}

Interval share_interval(std::span<const Part> parts, const Draws& draws) {
  const std::vector<Part> kept = weighted(parts);
  const double share = quotient_of(kept);
  if (kept.size() < 2 || !std::isfinite(share)) return without(share, kept.size());
  return share_with(share, reach_of(residuals_of(kept, share), quotient, draws).error, kept.size());
}

Interval share_interval(double share, std::span<const double> without_each) {
  const std::size_t units = without_each.size();
  if (units < 2) return without(share, units);
  const auto n = static_cast<double>(units);
  const double mean = std::accumulate(without_each.begin(), without_each.end(), 0.0) / n;
  double square = 0;
  for (const double value : without_each) square += (value - mean) * (value - mean);
  // The share is the same whatever text is left out: it is no draw of anything.
  if (square == 0) return reaching(share, {}, units, method::kConstant);
  return share_with(share, std::sqrt((n - 1) / n * square), units);
}

Interval ratio_of_differences(std::span<const Part> parts, const Draws& draws) {
  const double ratio = quotient_of(parts);
  std::vector<double> denominators;
  for (const Part& part : parts) denominators.push_back(part.weight);
  const Interval denominator = mean_interval(denominators, draws);
  const bool none = !denominator.low || (*denominator.low <= 0 && *denominator.high >= 0);
  if (none || !std::isfinite(ratio)) return without(ratio, parts.size());
  return reaching(ratio, jackknife_reach(residuals_of(parts, ratio), quotient), parts.size(),
                  method::kJackknifeT);
}

Interval median_interval(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  const std::size_t n = sorted.size();
  if (n == 0 || !std::ranges::all_of(sorted, [](double x) { return std::isfinite(x); })) {
    return without(kNaN, n);
  }
  std::ranges::sort(sorted);
  const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  if (n < kFewestForMedian) return without(median, n);
  // P(Bin(n, 1/2) <= k - 1), term by term in logarithms: 2^-n leaves a float64 at n = 1075.
  std::size_t k = 0;
  double below = 0, log_term = -static_cast<double>(n) * std::log(2.0);
  for (; below + std::exp(log_term) <= 0.025; ++k) {
    below += std::exp(log_term);
    log_term += std::log(static_cast<double>(n - k) / static_cast<double>(k + 1));
  }
  return {median, sorted[k - 1], sorted[n - k], static_cast<std::int64_t>(n),
          method::kOrderStatistics};
}

Interval pooled_quantile_interval(const Clusters& samples, double p) {
  std::vector<double> pooled = samples.pooled();
  std::ranges::sort(pooled);
  std::size_t units = 0;
  for (const auto& unit : samples.values) units += !unit.empty();
  if (pooled.empty() || std::isnan(pooled.back())) return without(kNaN, units);
  // Linear interpolation between order statistics, as numpy's default.
  const auto quantile = [&pooled](double at) {
    const double place = at * static_cast<double>(pooled.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, pooled.size() - 1);
    return pooled[below] + (place - static_cast<double>(below)) * (pooled[above] - pooled[below]);
  };
  Interval out = without(quantile(p), units);
  if (units < 2) return out;
  UnitSums<2> shares;
  double share = 0;
  for (const auto& unit : samples.values) {
    if (unit.empty()) continue;
    const auto below = std::ranges::count_if(unit, [&](double x) { return x < out.mean; });
    shares[0].push_back(static_cast<double>(below));
    shares[1].push_back(static_cast<double>(unit.size()));
    share += static_cast<double>(below) / static_cast<double>(pooled.size());
  }
  for (std::size_t t = 0; t < units; ++t) shares[0][t] -= share * shares[1][t];
  const double half = jackknife_reach(shares, quotient).above;
  out.method = method::kSharesReadBack;
  if (p - half > 0) out.low = quantile(p - half);
  if (p + half < 1) out.high = quantile(p + half);
  return out;
}

Interval bounded(const ValueRange& range, Interval interval) {
  if (!interval.low || !interval.high) return interval;
  const double width = range.high - range.low, mean = interval.mean;
  // A mean that rounding took beyond an end stays in its interval.
  const double least = std::min(range.low, mean), most = std::max(range.high, mean);
  const bool below = *interval.low < least;
  const bool above = *interval.high > most;
  const bool at_an_end = std::min(mean - range.low, range.high - mean) <= kRounding * width;
  if (below != above && std::isfinite(width) && !at_an_end) return of_the_logit(range, interval);
  if (below && above) interval.method = method::kTooFew;
  if (below) interval.low = least;
  if (above) interval.high = most;
  return interval;
}

std::vector<Part> blocks_of(std::span<const double> rows) {
  const std::int64_t length = std::ssize(rows) / kBlocks;
  std::vector<Part> blocks;
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    const auto begin = rows.begin() + block * length;
    blocks.push_back({std::accumulate(begin, begin + length, 0.0), static_cast<double>(length)});
  }
  return blocks;
}

Interval rows_interval(std::span<const double> rows) {
  return blocks_interval(mean_of_rows(rows), blocks_of(rows), std::ssize(rows));
}

Interval blocks_interval(double value, std::span<const Part> blocks, std::int64_t rows) {
  const std::vector<Part> kept = weighted(blocks);
  if (rows < kFewestRows || kept.size() < kBlocks) return without(value, 1);
  const Reach reach = jackknife_reach(residuals_of(kept, quotient_of(kept)), quotient);
  return counted_in("blocks", reaching(value, reach, kept.size(), method::kBlocks));
}

Interval rows_share(std::span<const double> rows) {
  const double share = mean_of_rows(rows);
  if (std::ssize(rows) < kFewestRows || !std::isfinite(share)) return without(share, 1);
  const std::vector<Part> blocks = blocks_of(rows);
  const Reach reach = jackknife_reach(residuals_of(blocks, quotient_of(blocks)), quotient);
  return share_of_blocks(share, reach.error);
}

ShapeIntervals shape_intervals(const Clusters& samples, const Sampled& sampled,
                               const Draws& draws) {
  const Moments moments = moments_of(samples.pooled());
  std::vector<std::vector<double>> units = samples.values;
  std::erase_if(units, [](const auto& unit) { return unit.empty(); });
  std::vector<Part> positive;
  for (const auto& unit : units) {
    const auto above = std::ranges::count_if(unit, [](double x) { return x > 0; });
    positive.push_back({static_cast<double>(above), static_cast<double>(unit.size())});
  }
  const bool known =
      std::isfinite(moments.mean) &&
      (sampled.blocks ? units.size() == kBlocks && sampled.rows >= kFewestRows : units.size() > 1);
  const std::size_t n = sampled.blocks && !known ? 1 : units.size();
  if (!known) {
    return {without(moments.mean, n), without(moments.sigma, n), without(moments.skewness, n),
            without(moments.share_positive, n)};
  }
  const auto interval_of = [&]<std::size_t K>(double value, Statistic<K> statistic) {
    const Reach reach = reach_of(power_sums<K>(units, moments.mean), statistic, draws);
    const char* words = reach.bootstrap ? method::kRatioBootstrapT : method::kJackknifeT;
    return reaching(value, reach, n, words);
  };
  ShapeIntervals out{interval_of(moments.mean, &mean_of_sums),
                     interval_of(moments.sigma, &sigma_of_sums),
                     interval_of(moments.skewness, &skewness_of_sums),
                     {}};
  out.sigma = bounded(kFromZero, out.sigma);
  // The jackknife's covers 65 to 85 % there.
  if (units.size() < kBootstrapFrom) out.skewness = without(moments.skewness, n);
  const double share = quotient_of(positive);
  const double error = reach_of(residuals_of(positive, share), &quotient, draws).error;
  out.share_positive = sampled.blocks ? share_of_blocks(moments.share_positive, error)
                                      : share_with(moments.share_positive, error, n);
  if (sampled.blocks) {
    for (Interval* interval : {&out.mean, &out.sigma, &out.skewness}) {
      if (interval->known()) interval->method = method::kBlocks, interval->unit = "blocks";
    }
  }
  return out;
}

}  // namespace phasescope::analysis
