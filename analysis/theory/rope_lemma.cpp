#include "analysis/theory/rope_lemma.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "analysis/theory/rope_angles.h"
#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kNothingExceeds = 0.5;  // D/2 terms of at most 1, over D

double ln(const LemmaPoint& point) { return std::log(point.base); }

double epsilon_of(const LemmaPoint& point) {
  return lemma_epsilon(point.lambda, ln(point), point.dim);
}

// |C| <= (1 + theta_0)/(4 pi theta_0 ln base lambda) + epsilon.
double sharper_bound(const LemmaPoint& point) {
  return (1 + 1 / point.base) * point.base / (4 * kPi * ln(point) * point.lambda) +
         epsilon_of(point);
}

std::vector<LemmaPoint> default_points() {
  std::vector<LemmaPoint> points;
  for (const auto& [base, dim] :
       {std::pair{1e3, std::int64_t{1} << 16}, std::pair{1e4, std::int64_t{1} << 18}}) {
    for (const double lambda : spread_in_log(2, 20 * base, 24)) {
      points.push_back({base, dim, lambda});
    }
  }
  for (const double base : {1e3, 1e4, 5e5, 1e8}) {
    for (const std::int64_t dim : {128, 1024, 8192}) {
      for (const double lambda : spread_in_log(1.5, 1e3 * base, 12)) {
        points.push_back({base, dim, lambda});
      }
    }
  }
  return points;
}

// The distance at which a plane's bound says most, plotted for one base and D.
CheckCurve plotted(const std::vector<LemmaPoint>& points, const std::vector<CosSin>& sums,
                   const std::string& label, double (*bound)(const LemmaPoint&)) {
  CheckCurve curve = curve_of(label, {"lambda (the paper's)", "|C|", true, true}, {}, {});
  for (std::size_t n = 0; n < points.size(); ++n) {
    if (points[n].base != points[0].base || points[n].dim != points[0].dim) continue;
    curve.x.push_back(points[n].lambda);
    curve.y.push_back(std::abs(sums[n].c));
    curve.bound.push_back(bound(points[n]));
  }
  return curve;
}

double bound_on_c(const LemmaPoint& point) { return lemma_bounds(point).c; }

std::vector<CheckCurve> both_bounds(const std::vector<LemmaPoint>& points,
                                    const std::vector<CosSin>& sums) {
  return {plotted(points, sums, "|C| and the lemma's bound", bound_on_c),
          plotted(points, sums, "|C| and the sharper bound", sharper_bound)};
}

CheckResult rope_lemma_of_model(const GeometricAngles& angles) {
  const double least = smallest_lemma_bound(angles.base, angles.dim);
  const std::int64_t dim = smallest_speaking_dim(angles.base);
  const Measured measured{least, kNothingExceeds, 0, 1};
  const bool speaks = least < kNothingExceeds;
  CheckResult result =
      speaks ? answer(Verdict::undecided, measured,
                      "at this D the bound speaks; the check without a model tries its points")
             : answer(Verdict::premise_not_met, measured,
                      "premise: a D at which the bound on |C| can be exceeded; at D = " +
                          std::to_string(angles.dim) + " and base " + short_number(angles.base) +
                          " it is never below " + short_number(least) +
                          ", and |C| never above 1/2. The smallest power of two that speaks is "
                          "D = " +
                          std::to_string(dim));
  // The model's own sums all the same, below a bound that says nothing.
  std::vector<LemmaPoint> points;
  std::vector<CosSin> sums;
  for (const double lambda : spread_in_log(1.5, 1e3 * angles.base, 120)) {
    points.push_back({angles.base, angles.dim, lambda});
    sums.push_back(sums_of(points.back()));
  }
  result.curves = both_bounds(points, sums);
  return result;
}

CheckResult run_rope_lemma(const CheckContext& context) {
  if (context.model == nullptr) return judge_lemma(default_points(), sums_of, context.progress);
  const GeometricAngles angles = geometric_angles_of(context);
  if (!angles.missing.empty()) return not_measured(Verdict::premise_not_met, angles.missing);
  return rope_lemma_of_model(angles);
}

}  // namespace

CosSin sums_of(const LemmaPoint& point) {
  return frequency_sums(point.lambda, ln(point), point.dim, Angles::paper);
}

double lemma_lower_bound(const LemmaPoint& point, double e0) {
  const double slow = point.lambda * std::pow(point.base, -e0);
  return (1 - e0) / 2 * std::cos(2 * kPi * slow) - 1 / ln(point) - epsilon_of(point);
}

LemmaBounds lemma_bounds(const LemmaPoint& point) {
  const double epsilon = epsilon_of(point);
  LemmaBounds out;
  out.c = 2 * point.base / (ln(point) * point.lambda * kPi) + epsilon;
  out.s = 2 / ln(point) + epsilon;
  out.lower = -1;
  for (const double e0 : {.1, .25, .5, .75}) {
    if (point.lambda * std::pow(point.base, -e0) >= 0.25) continue;
    out.lower = std::max(out.lower, lemma_lower_bound(point, e0));
  }
  return out;
}

CheckResult judge_lemma(const std::vector<LemmaPoint>& points, const LemmaSums& sums,
                        protocol::Progress* progress) {
  double worst = 0;
  std::int64_t speaking = 0, silent = 0;
  LemmaPoint where;
  std::vector<CosSin> all;
  for (const LemmaPoint& point : points) {
    progress->throw_if_cancelled();
    progress->progress(static_cast<double>(all.size()) / static_cast<double>(points.size()),
                       "summing planes");
    const CosSin at = all.emplace_back(sums(point));
    const LemmaBounds bounds = lemma_bounds(point);
    double share = -1;
    if (bounds.c < kNothingExceeds) share = std::abs(at.c) / bounds.c;
    if (bounds.s < kNothingExceeds) share = worst_of(share, std::abs(at.s) / bounds.s);
    if (bounds.lower > 0) share = worst_of(share, at.c > 0 ? bounds.lower / at.c : 2);
    (share == -1 ? silent : speaking) += 1;
    if (!(share <= worst)) worst = worst_of(worst, share), where = point;
  }
  const std::string counts = std::to_string(speaking) + " points whose bound can be exceeded (" +
                             std::to_string(silent) + " more cannot)";
  if (speaking == 0) return not_measured(Verdict::premise_not_met, counts);
  CheckResult result = answer_below(
      {worst, 1, 0, speaking}, "largest share of a bound " + short_number(worst) + " of " + counts +
                                   ", at base " + short_number(where.base) +
                                   ", D = " + std::to_string(where.dim) + ", lambda " +
                                   short_number(where.lambda) + " (the paper's)");
  result.curves = both_bounds(points, all);
  return result;
}

double smallest_lemma_bound(double base, std::int64_t dim) {
  double least = 1e300;
  for (const double lambda : spread_in_log(1.01, 1e3 * base, 600)) {
    least = std::min(least, lemma_bounds({base, dim, lambda}).c);
  }
  return least;
}

std::int64_t smallest_speaking_dim(double base) {
  std::int64_t dim = 64;
  const auto speaks = [&] {
    return static_cast<double>(dim) > 4 * std::log(base) &&
           smallest_lemma_bound(base, dim) < kNothingExceeds;
  };
  while (dim < (std::int64_t{1} << 40) && !speaks()) dim *= 2;
  return dim;
}

TheoryCheck rope_lemma() {
  return {{.id = "rope.lemma",
           .statement = "With C and S the means of cos and sin of the angles over the planes, |C| "
                        "<= 2/(theta_0 |ln theta_0| lambda pi) + eps, |S| <= 2/|ln theta_0| + eps, "
                        "and C > (1 - e0)/2 cos(2 pi lambda theta_0^e0) - 1/|ln theta_0| - eps.",
           .source = "arXiv 2509.12635, Lemmas B.1 and B.2 (last version: C.1 and C.2)",
           .title = "Bounds on the sums over RoPE's planes",
           .needs = "nothing; of a model its base and head size",
           .rule = "holds where no sum exceeds its bound, among points whose bound is below 1/2 "
                   "(lower bound: above 0); of a model premise not met, naming the smallest D "
                   "whose bound speaks"},
          &run_rope_lemma,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
