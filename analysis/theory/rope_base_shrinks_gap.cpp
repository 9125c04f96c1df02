#include "analysis/theory/rope_base_shrinks_gap.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "analysis/theory/rope_angles.h"
#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kLn10 = std::numbers::ln10;
// The rounding of a sum of D/2 cosines over D in float64.
constexpr double kRopeBaseShrinksGapRounding = 1e-14;

CheckResult run_rope_base_shrinks_gap(const CheckContext& context) {
  BaseGapCase gap;
  if (context.model != nullptr) {
    const GeometricAngles angles = geometric_angles_of(context);
    if (!angles.missing.empty()) return not_measured(Verdict::premise_not_met, angles.missing);
    gap.dim = angles.dim;
  }
  return judge_base_gap(gap, sums_of_base);
}

}  // namespace

CosSin sums_of_base(double distance, double log10_base, std::int64_t dim) {
  return frequency_sums(distance, log10_base * kLn10, dim, Angles::model);
}

CosSin base_gap_bounds(const BaseGapCase& gap, double log10_base) {
  const double ln_base = log10_base * kLn10, ln_far = std::log(gap.far);
  const auto dim = static_cast<double>(gap.dim);
  return {(ln_far + 0.125) / ln_base + 2.5 / dim, (ln_far + 0.5) / ln_base + 3 / dim};
}

double base_limit(double distance, std::int64_t dim) {
  const auto size = static_cast<double>(dim);
  return (std::cos(distance) + size / 2 - 1) / size;
}

double base_limit_bound(double distance, std::int64_t dim, double log10_base) {
  const auto size = static_cast<double>(dim);
  const double q = std::pow(10, -4 * log10_base / size);
  return distance * distance * q / (2 * size * (1 - q));
}

double interpolated_gap(const BaseGapCase& gap, double log10_base, double factor) {
  return sums_of_base(gap.near / factor, log10_base, gap.dim).c -
         sums_of_base(gap.far / factor, log10_base, gap.dim).c;
}

CheckResult judge_base_gap(const BaseGapCase& gap, const SumsOfBase& sums) {
  Measured worst{0, 1, 0, 0};
  double share = -1, at_limit = 0, interpolated = 0;
  std::string name;
  CheckCurve curve =
      curve_of("|C(near) - C(far)|", {"log10 of the base", "gap", false, true}, {}, {});
  for (const double ten : {4., 5., 6., 7., 8., 9., 10., 11., 12., 20., 50., 100., 300.}) {
    const CosSin near = sums(gap.near, ten, gap.dim), far = sums(gap.far, ten, gap.dim);
    const CosSin bounds = base_gap_bounds(gap, ten);
    const double dc = std::abs(near.c - far.c), ds = std::abs(near.s - far.s);
    curve.x.push_back(ten), curve.y.push_back(dc), curve.bound.push_back(bounds.c);
    const double larger = worst_of(dc / bounds.c, ds / bounds.s);
    ++worst.samples;
    at_limit = worst_of(
        at_limit, std::abs(near.c - base_limit(gap.near, gap.dim)) /
                      (base_limit_bound(gap.near, gap.dim, ten) + kRopeBaseShrinksGapRounding));
    if (std::isnan(share) || larger <= share) continue;
    share = larger;
    const bool cosine = dc / bounds.c >= ds / bounds.s;
    worst.value = cosine ? dc : ds, worst.bound = cosine ? bounds.c : bounds.s;
    name = std::string(cosine ? "cosines" : "sines") + " at base 10^" + short_number(ten);
  }
  for (const double factor : {1., 4., 64., 4096., 1e6}) {
    const double bound = std::pow(gap.far / factor, 2) / 4 + kRopeBaseShrinksGapRounding;
    interpolated = worst_of(interpolated, std::abs(interpolated_gap(gap, 4, factor)) / bound);
  }
  const bool holds = share <= 1 && at_limit <= 1 && interpolated <= 1;
  CheckResult result =
      answer(holds ? Verdict::holds : Verdict::fails, worst,
             "largest share of a bound: " + short_number(share) + ", of the gap of " + name +
                 ", between distances " + short_number(gap.near) + " and " + short_number(gap.far) +
                 " with D = " + std::to_string(gap.dim) + "; |C - its limit| is " +
                 short_number(at_limit) +
                 " of its bound; with positions divided by up to 10^6 the gap is " +
                 short_number(interpolated) + " of (Lambda/f)^2/4; the gap falls from " +
                 short_number(curve.y.front()) + " at 10^4 to " + short_number(curve.y.back()) +
                 " at 10^300, where it is O(1/D)");
  result.curves = {std::move(curve)};
  return result;
}

TheoryCheck rope_base_shrinks_gap() {
  return {{.id = "rope.base_shrinks_gap",
           .statement = "For fixed distances the gap of the mean score falls as the base grows, as "
                        "ln(Lambda/lambda)/(2 ln base) with ripples of 1/sqrt D and a rest of "
                        "O(1/D); with positions divided by f it is at most (Lambda/f)^2/4.",
           .source = "arXiv 2509.12635, Theorem 2.3 (last version: 2.4)",
           .title = "A larger base leaves less distance bias",
           .needs = "nothing; of a model its head size",
           .rule = "holds where, for bases 10^4 to 10^300, |dC| <= (ln Lambda + 1/8)/ln base + "
                   "5/(2D), |dS| <= (ln Lambda + 1/2)/ln base + 3/D, and C is as near its limit as "
                   "lambda^2 q/(2D(1 - q)), q = base^(-4/D)"},
          &run_rope_base_shrinks_gap,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
