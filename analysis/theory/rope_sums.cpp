#include "analysis/theory/rope_sums.h"

#include <algorithm>
#include <boost/math/constants/constants.hpp>
#include <boost/math/quadrature/exp_sinh.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <numbers>

namespace phasescope::analysis {
namespace {

using boost::multiprecision::cpp_bin_float;
using Digits200 = boost::multiprecision::number<cpp_bin_float<200>, boost::multiprecision::et_off>;

constexpr double kRopeSumsTwoPi = 2 * std::numbers::pi;

template <class Real>
CosSin sums_in(const Real& lambda, const Real& ln_base, std::int64_t dim, Angles angles) {
  using std::exp;
  using std::floor;
  const Real two_pi = boost::math::constants::two_pi<Real>();
  Real turns = angles == Angles::paper ? lambda : Real(lambda / two_pi);
  const Real step = exp(Real(-2 * ln_base / Real(dim)));
  CosSin sum;
  for (std::int64_t d = 0; d < dim / 2; ++d, turns *= step) {
    const double angle = kRopeSumsTwoPi * static_cast<double>(Real(turns - floor(turns)));
    sum.c += std::cos(angle);
    sum.s += std::sin(angle);
  }
  const auto count = static_cast<double>(dim);
  return {sum.c / count, sum.s / count};
}

// f(x) and g(x) of Si = pi/2 - f cos x - g sin x, Ci = f sin x - g cos x (DLMF 6.2.17-20), as
// integrals of e^-u / (1 + u^2/x^2).
struct Auxiliary {
  double f = 0, g = 0;
};
Auxiliary auxiliary(double x) {
  constexpr double kTolerance = 1e-13;
  static boost::math::quadrature::exp_sinh<double> integrator;
  const auto kernel = [x](double u) { return std::exp(-u) / (1 + (u / x) * (u / x)); };
  const double f = integrator.integrate([&](double u) { return kernel(u); }, kTolerance);
  const double g = integrator.integrate([&](double u) { return u * kernel(u); }, kTolerance);
  return {f / x, g / x / x};
}

// Below, the power series loses less than a digit; above, the auxiliary functions are smooth.
constexpr double kSeriesUpTo = 4;

// sum over k >= first of (-1)^k x^(2k+odd) / ((2k+odd) (2k+odd)!), its sign beginning with +.
double power_series(double x, int first) {
  double sum = 0, term = 1;
  for (int n = 1; n <= first; ++n) term *= x / n;
  for (int n = first; n < 60; n += 2) {
    sum += term / n;
    term *= -x * x / ((n + 1.0) * (n + 2.0));
  }
  return sum;
}

}  // namespace

CosSin frequency_sums(double lambda, double ln_base, std::int64_t dim, Angles angles) {
  return sums_in<long double>(lambda, ln_base, dim, angles);
}

CosSin exact_frequency_sums(double lambda, double ln_base, std::int64_t dim, Angles angles) {
  return sums_in<Digits200>(lambda, ln_base, dim, angles);
}

double sine_integral(double x) {
  if (x <= kSeriesUpTo) return power_series(x, 1);
  const Auxiliary a = auxiliary(x);
  return std::numbers::pi / 2 - a.f * std::cos(x) - a.g * std::sin(x);
}

double cosine_integral(double x) {
  if (x <= kSeriesUpTo) return std::numbers::egamma + std::log(x) - power_series(x, 2);
  const Auxiliary a = auxiliary(x);
  return a.f * std::sin(x) - a.g * std::cos(x);
}

CosSin limit_sums(double lambda, double ln_base) {
  const double far = kRopeSumsTwoPi * lambda, near = far * std::exp(-ln_base);
  return {(cosine_integral(far) - cosine_integral(near)) / (2 * ln_base),
          (sine_integral(far) - sine_integral(near)) / (2 * ln_base)};
}

double lemma_epsilon(double lambda, double ln_base, std::int64_t dim) {
  const double c = 4 * std::numbers::pi * lambda / static_cast<double>(dim);
  const double best = c * ln_base > 1 ? std::clamp(std::log(c * ln_base) / ln_base, 0.0, 1.0) : 0;
  return best + c * std::exp(-best * ln_base);
}

std::vector<double> spread_in_log(double low, double high, int count) {
  std::vector<double> values;
  for (int n = 0; n < count; ++n) {
    values.push_back(low * std::pow(high / low, static_cast<double>(n) / (count - 1)));
  }
  return values;
}

}  // namespace phasescope::analysis
