#include "analysis/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace phasescope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean_of(std::span<const double> values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Moments moments_of(std::span<const double> values) {
  Moments m;
  m.n = static_cast<std::int64_t>(values.size());
  m.mean = mean_of(values);
  // Values of which one is not finite have no spread and no shape either.
  if (!std::isfinite(m.mean)) {
    m.sigma = m.skewness = m.share_positive = kNaN;
    return m;
  }
  // The mean of equal values may be off by a rounding, which is no spread.
  if (std::ranges::all_of(values, [&](double x) { return x == values[0]; })) m.mean = values[0];
  double square = 0, cube = 0, positive = 0;
  for (const double x : values) {
    const double d = x - m.mean;
    square += d * d;
    cube += d * d * d;
    positive += x > 0 ? 1 : 0;
  }
  const auto n = static_cast<double>(values.size());
  m.share_positive = positive / n;
  // One value says nothing of how far others would lie from it.
  if (values.size() < 2) {
    m.sigma = m.skewness = kNaN;
    return m;
  }
  m.sigma = std::sqrt(square / n);
  m.skewness = m.sigma > 0 ? cube / n / (m.sigma * m.sigma * m.sigma) : 0;
  return m;
}

double sample_deviation(std::span<const double> values) {
  if (values.size() < 2) return kNaN;
  const double mean = mean_of(values);
  double square = 0;
  for (const double x : values) square += (x - mean) * (x - mean);
  return std::sqrt(square / static_cast<double>(values.size() - 1));
}

std::vector<double> Clusters::pooled() const {
  std::vector<double> all;
  for (const auto& list : values) all.insert(all.end(), list.begin(), list.end());
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

Histogram histogram_of(std::span<const double> values, int bins) {
  Histogram h;
  if (!std::ranges::all_of(values, [](double x) { return std::isfinite(x); })) return h;
  if (values.empty()) return h;
  const auto [low_at, high_at] = std::minmax_element(values.begin(), values.end());
  double low = *low_at, high = *high_at;
  if (!(high > low)) low -= 0.5, high += 0.5;
  return histogram_between(values, low, high, bins);
}

Histogram histogram_between(std::span<const double> values, double low, double high, int bins) {
  Histogram h;
  h.counts.assign(static_cast<std::size_t>(bins), 0);
  for (int i = 0; i <= bins; ++i) h.edges.push_back(low + (high - low) * i / bins);
  for (const double x : values) {
    const auto bin = static_cast<int>((x - low) / (high - low) * bins);
    ++h.counts[static_cast<std::size_t>(std::clamp(bin, 0, bins - 1))];
  }
  return h;
}

Line fit_line(std::span<const double> x, std::span<const double> y) {
  const double mean_x = mean_of(x), mean_y = mean_of(y);
  double xx = 0, xy = 0, residual = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (!(xx > 0)) return {kNaN, kNaN, kNaN};
  Line line{xy / xx, 0, 0};
  line.intercept = mean_y - line.slope * mean_x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double r = y[i] - line.intercept - line.slope * x[i];
    residual += r * r;
  }
  const auto n = static_cast<double>(x.size());
  line.slope_error = n > 2 ? std::sqrt(residual / (n - 2) / xx) : kNaN;
  return line;
}

double js_divergence(std::span<const double> p, std::span<const double> q) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double a = p[i], b = q[i], middle = (a + b) / 2;
    if (a > 0) sum += a * std::log(a / middle);
    if (b > 0) sum += b * std::log(b / middle);
  }
  return std::max(0.0, sum / 2);
}

double entropy_of(std::span<const double> p) {
  double sum = 0;
  for (const double x : p) {
    if (x > 0) sum -= x * std::log(x);
  }
  return sum;
}

}  // namespace phasescope::analysis
