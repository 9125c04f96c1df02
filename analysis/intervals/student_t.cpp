#include "analysis/intervals/student_t.h"

#include <cmath>
#include <map>

namespace phasescope::analysis {
namespace {

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

}  // namespace

double student_t_quantile(double p, double degrees) {
  return solve_growing([degrees](double t) { return student_t_cdf(t, degrees); }, p);
}

double two_sided_t(int degrees) {
  thread_local std::map<int, double> known;
  const auto at = known.find(degrees);
  if (at != known.end()) return at->second;
  return known[degrees] = student_t_quantile(0.975, degrees);
}

}  // namespace phasescope::analysis
