#include "analysis/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "analysis/random.h"

namespace phasescope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean_of(std::span<const double> values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < tiny ? tiny : d);
  double fraction = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      d = 1 / (std::abs(d) < tiny ? tiny : d);
      c = 1 + term / c;
      if (std::abs(c) < tiny) c = tiny;
      change = c * d;
      fraction *= change;
    }
    if (std::abs(change - 1) < 1e-16) break;
  }
  return fraction;
}

double regularised_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double student_t_cdf(double t, double degrees) {
  const double sum = degrees + t * t;
  if (t * t < degrees) {  // 1 - degrees / sum would lose the digits of small t
    const double half = regularised_beta(0.5, degrees / 2, t * t / sum) / 2;
    return t > 0 ? 0.5 + half : 0.5 - half;
  }
  const double tail = regularised_beta(degrees / 2, 0.5, degrees / sum) / 2;
  return t > 0 ? 1 - tail : tail;
}

// Root of a growing function by doubling and bisection.
template <class F>
double solve_growing(F f, double target) {
  double low = -1, high = 1;
  while (f(low) > target) low *= 2;
  while (f(high) < target) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-15 * (std::abs(low) + std::abs(high)); ++i) {
    const double middle = (low + high) / 2;
    (f(middle) < target ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Linear interpolation between order statistics, as numpy's default. `sorted` is ascending.
double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Moments moments_of(std::span<const double> values) {
  Moments m;
  m.n = static_cast<std::int64_t>(values.size());
  m.mean = mean_of(values);
  if (values.empty()) {
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
  m.sigma = std::sqrt(square / n);
  m.skewness = m.sigma > 0 ? cube / n / (m.sigma * m.sigma * m.sigma) : 0;
  m.share_positive = positive / n;
  return m;
}

double sample_deviation(std::span<const double> values) {
  if (values.size() < 2) return kNaN;
  const double mean = mean_of(values);
  double square = 0;
  for (const double x : values) square += (x - mean) * (x - mean);
  return std::sqrt(square / static_cast<double>(values.size() - 1));
}

double student_t_quantile(double p, double degrees) {
  return solve_growing([degrees](double t) { return student_t_cdf(t, degrees); }, p);
}

double normal_quantile(double p) {
  return solve_growing([](double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }, p);
}

namespace {

// Intervals of one result share their degrees of freedom, and the quantile costs a root finding.
double two_sided_quantile(std::int64_t degrees) {
  thread_local std::map<std::int64_t, double> known;
  const auto at = known.find(degrees);
  if (at != known.end()) return at->second;
  return known[degrees] = student_t_quantile(0.975, static_cast<double>(degrees));
}

}  // namespace

Interval mean_interval(std::span<const double> cluster_means) {
  const double mean = mean_of(cluster_means);
  const auto n = static_cast<std::int64_t>(cluster_means.size());
  if (n < 2) return {mean, kNaN, kNaN, n};
  const double error = sample_deviation(cluster_means) / std::sqrt(static_cast<double>(n));
  const double half = two_sided_quantile(n - 1) * error;
  return {mean, mean - half, mean + half, n};
}

Interval bootstrap_interval(std::span<const double> document_means, std::span<const double> weights,
                            std::uint64_t seed, int replicates) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < document_means.size(); ++i) {
    if (std::isfinite(document_means[i]) && weights[i] > 0) kept.push_back(i);
  }
  const auto n = static_cast<std::int64_t>(kept.size());
  double sum = 0, weight = 0;
  for (const std::size_t i : kept) sum += weights[i] * document_means[i], weight += weights[i];
  if (n < 2) return {n == 0 ? kNaN : sum / weight, kNaN, kNaN, n};
  Random random(seed);
  std::vector<double> means(static_cast<std::size_t>(replicates));
  for (double& mean : means) {
    double drawn_sum = 0, drawn_weight = 0;
    for (std::int64_t draw = 0; draw < n; ++draw) {
      const std::size_t i = kept[static_cast<std::size_t>(random.below(n))];
      drawn_sum += weights[i] * document_means[i];
      drawn_weight += weights[i];
    }
    mean = drawn_sum / drawn_weight;
  }
  std::sort(means.begin(), means.end());
  return {sum / weight, percentile(means, 0.025), percentile(means, 0.975), n};
}

std::vector<double> Clusters::pooled() const {
  std::vector<double> all;
  for (const auto& list : values) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<double> Clusters::means() const {
  std::vector<double> all;
  for (const auto& list : values) {
    if (!list.empty()) all.push_back(mean_of(list));
  }
  return all;
}

Interval clustered_interval(const Clusters& clusters) { return mean_interval(clusters.means()); }

Histogram histogram_of(std::span<const double> values, int bins) {
  Histogram h;
  if (!std::ranges::all_of(values, [](double x) { return std::isfinite(x); })) return h;
  if (values.empty()) return h;
  const auto [low_at, high_at] = std::minmax_element(values.begin(), values.end());
  double low = *low_at, high = *high_at;
  if (!(high > low)) low -= 0.5, high += 0.5;
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
