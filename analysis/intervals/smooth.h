#pragma once
// How far an interval reaches from a statistic that is a smooth function of sums over units (a
// ratio, a deviation, a skewness): by the jackknife and Student's t, or by the bootstrap-t, whose
// standard errors are those of the linearised statistic.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "analysis/intervals/draws.h"
#include "analysis/intervals/student_t.h"

namespace phasescope::analysis {

// Entry [k][t]: the k-th sum over the samples of unit t.
template <std::size_t K>
using UnitSums = std::array<std::vector<double>, K>;

template <std::size_t K>
struct Slope {
  double value = 0;
  std::array<double, K> gradient{};
};
// A statistic at the sums over all units. It must not change when all sums are multiplied by one
// number, so that its gradient is orthogonal to the sums.
template <std::size_t K>
using Statistic = Slope<K> (*)(const std::array<double, K>& totals);

// One standard error, and a 95 % interval, which reaches from value - below to value + above.
struct Reach {
  double error = 0, below = 0, above = 0;
  bool bootstrap = false;  // otherwise Student's t
};

inline Reach student_reach(double error, std::size_t units) {
  const double half = two_sided_t(static_cast<int>(units) - 1) * error;
  return {error, half, half, false};
}

template <std::size_t K>
std::array<double, K> totals_of(const UnitSums<K>& sums) {
  std::array<double, K> totals{};
  for (std::size_t k = 0; k < K; ++k) {
    for (const double x : sums[k]) totals[k] += x;
  }
  return totals;
}

// (n - 1)/n times the sum of squares of the statistic without each unit, about their mean.
template <std::size_t K>
Reach jackknife_reach(const UnitSums<K>& sums, Statistic<K> statistic) {
  const std::size_t units = sums[0].size();
  const std::array<double, K> totals = totals_of(sums);
  std::vector<double> without(units);
  double mean = 0, square = 0;
  for (std::size_t t = 0; t < units; ++t) {
    std::array<double, K> others = totals;
    for (std::size_t k = 0; k < K; ++k) others[k] -= sums[k][t];
    without[t] = statistic(others).value;
    mean += without[t] / static_cast<double>(units);
  }
  for (const double value : without) square += (value - mean) * (value - mean);
  const auto n = static_cast<double>(units);
  return student_reach(std::sqrt((n - 1) / n * square), units);
}

// Standard error of a draw's statistic by its linearisation: sqrt(n/(n-1) sum (gradient . sums)^2).
// What rounding leaves of a draw of equal units is 0: of n sums, n units in the last place of the
// terms that cancel.
template <std::size_t K>
double linear_error(const UnitSums<K>& sums, const std::array<double, K>& gradient,
                    const std::uint16_t* counts) {
  const std::size_t units = sums[0].size();
  double square = 0, terms_square = 0;
  for (std::size_t t = 0; t < units; ++t) {
    double residual = 0, terms = 0;
    for (std::size_t k = 0; k < K; ++k) {
      residual += gradient[k] * sums[k][t];
      terms += std::abs(gradient[k] * sums[k][t]);
    }
    square += counts[t] * residual * residual;
    terms_square += counts[t] * terms * terms;
  }
  const auto n = static_cast<double>(units);
  const double rounding = n * std::numeric_limits<double>::epsilon();
  if (square <= rounding * rounding * terms_square) return 0;
  return std::sqrt(n / (n - 1) * square);
}

// (statistic of each draw - statistic) / its standard error, infinite where that is 0.
template <std::size_t K>
std::vector<double> studentised(const UnitSums<K>& sums, Statistic<K> statistic, double value,
                                const Draws::Counts& counts) {
  const std::size_t units = sums[0].size();
  std::vector<double> t_values(kDraws);
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    const std::uint16_t* drawn = counts.data() + draw * units;
    std::array<double, K> totals{};
    for (std::size_t k = 0; k < K; ++k) {
      for (std::size_t t = 0; t < units; ++t) totals[k] += drawn[t] * sums[k][t];
    }
    const Slope<K> slope = statistic(totals);
    const double error = linear_error(sums, slope.gradient, drawn);
    const double difference = slope.value - value;
    t_values[draw] = error > 0 ? difference / error
                               : std::copysign(std::numeric_limits<double>::infinity(), difference);
  }
  return t_values;
}

template <std::size_t K>
Reach bootstrap_reach(const UnitSums<K>& sums, Statistic<K> statistic, const Draws& draws) {
  const std::size_t units = sums[0].size();
  const Slope<K> slope = statistic(totals_of(sums));
  const std::vector<std::uint16_t> once(units, 1);
  const double error = linear_error(sums, slope.gradient, once.data());
  if (!(error > 0)) return student_reach(error, units);
  std::vector<double> t_values = studentised(sums, statistic, slope.value, *draws.of(units));
  const auto infinite = std::ranges::count_if(t_values, [](double t) { return !std::isfinite(t); });
  if (infinite > kDraws / 50) return jackknife_reach(sums, statistic);  // above 2 %
  constexpr std::size_t kLow = (kDraws + 1) / 40 - 1, kHigh = kDraws - 1 - kLow;
  std::ranges::nth_element(t_values, t_values.begin() + kLow);
  std::ranges::nth_element(t_values.begin() + kLow + 1, t_values.begin() + kHigh, t_values.end());
  return {error, t_values[kHigh] * error, -t_values[kLow] * error, true};
}

}  // namespace phasescope::analysis
