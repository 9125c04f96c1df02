#include "analysis/theory/cape_expressive.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/theory/matrix_product.h"
#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kCapeExpressiveShare = 0.01;
constexpr int kTrained = 512, kFar = 4096, kWidth = 32;

std::vector<double> feature_row(const std::vector<double>& knots, double z) {
  std::vector<double> row;
  for (const double knot : knots) row.push_back(leaky(knot - z));
  row.push_back(1);
  return row;
}

// The source's values at 0 and distances spread in the logarithm up to `last`, the last left out.
std::vector<double> knots_of(const BiasOfDistance& source, int last, int width) {
  std::set<double> places = {0};
  for (int n = 0; n < width - 1; ++n) {
    // As numpy rounds: halves to even.
    places.insert(std::nearbyint(std::pow(last, static_cast<double>(n) / (width - 2))));
  }
  std::vector<double> knots;
  for (const double place : places) knots.push_back(source(place));
  knots.pop_back();
  return knots;
}

std::vector<BiasOfDistance> kerples() {
  std::vector<BiasOfDistance> out;
  for (int h = 0; h < 4; ++h) out.push_back(kerple_bias(0.4 + 0.4 * h, 0.1 + 0.25 * h));
  return out;
}

std::vector<BiasOfDistance> alibis() {
  std::vector<BiasOfDistance> out;
  for (int h = 1; h <= 4; ++h) out.push_back(alibi_bias(std::pow(2, -2 * h)));
  return out;
}

std::string fit_text(const std::string& name, const ExpressiveFit& fit) {
  return name + ": off by " + short_number(fit.worst) + " of " + short_number(fit.largest) +
         " up to " + std::to_string(kTrained) + ", by " + short_number(fit.worst_past) + " of " +
         short_number(fit.largest_past) + " up to " + std::to_string(kFar) +
         ", where f is linear (no failure)";
}

CheckResult run_cape_expressive(const CheckContext&) {
  const std::vector<BiasOfDistance> kerple = kerples(), alibi = alibis();
  const ExpressiveFit to_kerple = fit_expressive(alibi[0], kerple, kTrained, kFar, kWidth);
  const ExpressiveFit to_alibi = fit_expressive(kerple[3], alibi, kTrained, kFar, kWidth);
  const ExpressiveFit buckets = fit_expressive(t5_bucket(), alibi, kTrained, kFar, kWidth);
  const CheckResult first = judge_fit(to_kerple), second = judge_fit(to_alibi);
  CheckResult result = *first.value / *first.bound > *second.value / *second.bound ? first : second;
  result.detail = fit_text("Kerple from Alibi", to_kerple) + "; " +
                  fit_text("Alibi from Kerple", to_alibi) + "; " +
                  fit_text("Alibi from T5's buckets, which no function does", buckets);
  // The control: what is no function of the source is not fitted.
  if (judge_fit(buckets).verdict != "fails") result.verdict = name_of(Verdict::fails);
  CheckCurve curve =
      curve_of("Kerple from Alibi", {"units of f", "worst error", true, true}, {}, {});
  for (const int width : {4, 8, 16, 32, 64}) {
    curve.x.push_back(width);
    curve.y.push_back(fit_expressive(alibi[0], kerple, kTrained, kFar, width).worst);
    curve.bound.push_back(kCapeExpressiveShare * to_kerple.largest);
  }
  result.curves = {std::move(curve)};
  return result;
}

}  // namespace

double leaky(double x) { return x > 0 ? x : 0.01 * x; }

BiasOfDistance alibi_bias(double slope) {
  return [slope](double distance) { return -slope * distance; };
}

BiasOfDistance kerple_bias(double p, double a) {
  return [p, a](double distance) { return -p * std::log1p(a * distance); };
}

BiasOfDistance t5_bucket() {
  return [](double distance) {
    if (distance < 16) return std::floor(distance);
    return std::min(31.0, 16 + std::floor(std::log(distance / 16) / std::log(8.0) * 16));
  };
}

ExpressiveFit fit_expressive(const BiasOfDistance& source,
                             const std::vector<BiasOfDistance>& targets, int last, int far,
                             int width) {
  const std::vector<double> knots = knots_of(source, last, width);
  const auto columns = static_cast<std::int64_t>(knots.size()) + 1;
  std::vector<double> features, all;
  for (int l = 0; l <= far; ++l) {
    const std::vector<double> row = feature_row(knots, source(l));
    if (l <= last) features.insert(features.end(), row.begin(), row.end());
    all.insert(all.end(), row.begin(), row.end());
  }
  ExpressiveFit fit;
  for (const BiasOfDistance& target : targets) {
    std::vector<double> wanted;
    for (int l = 0; l <= last; ++l) wanted.push_back(target(l));
    const std::vector<double> factors = least_squares(features, wanted, last + 1, columns);
    const std::vector<double> got = matrix_product(all, factors, far + 1, columns, 1);
    for (int l = 0; l <= far; ++l) {
      const double size = std::abs(target(l)),
                   off = std::abs(got[static_cast<std::size_t>(l)] - target(l));
      double& worst = l <= last ? fit.worst : fit.worst_past;
      worst = worst_of(worst, off);
      if (l <= last) fit.largest = std::max(fit.largest, size);
      fit.largest_past = std::max(fit.largest_past, size);
    }
  }
  return fit;
}

double unreachable(const std::vector<double>& keys, const std::vector<double>& values) {
  std::map<double, std::pair<double, double>> ranges;
  for (std::size_t n = 0; n < keys.size(); ++n) {
    const auto [at, first] = ranges.try_emplace(keys[n], values[n], values[n]);
    if (first) continue;
    at->second.first = std::min(at->second.first, values[n]);
    at->second.second = std::max(at->second.second, values[n]);
  }
  double widest = 0;
  for (const auto& [key, range] : ranges) widest = std::max(widest, range.second - range.first);
  return widest / 2;
}

CheckResult judge_fit(const ExpressiveFit& fit) {
  return answer_below({fit.worst, kCapeExpressiveShare * fit.largest, 0, kTrained + 1},
                      "worst error of the fit, against 1 % of the target's largest value");
}

TheoryCheck cape_expressive() {
  return {
      {.id = "cape.expressive",
       .statement = "f on the base bias can realise another base's bias, where the source is "
                    "injective in the distance; past the trained range f is linear.",
       .source = "arXiv 2405.14722, Section 3.2",
       .title = "f can turn one bias into another",
       .needs = "nothing",
       .rule = "holds where f of width 32 fits Kerple from Alibi and Alibi from Kerple to 1 % of "
               "the target over 0 .. 512, and does not fit Alibi from T5's buckets"},
      &run_cape_expressive,
      On::construction};
}

}  // namespace phasescope::analysis
