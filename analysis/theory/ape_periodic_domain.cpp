#include "analysis/theory/ape_periodic_domain.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "analysis/theory/verdicts.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

// Powers by squaring and multiplying in turn: some factors of the rounding of one product.
double rounding(std::int64_t dim, std::int64_t period) {
  return 4 * power_rounding(dim, static_cast<double>(period));
}

CheckCurve powers_of(const PeriodDistances& distances) {
  std::vector<double> x(distances.by_power.size());
  std::iota(x.begin(), x.end(), 1);
  return curve_of("|W^p - I|", {"p", "spectral norm", false, false}, x, distances.by_power);
}

CheckResult run_ape_periodic_domain(const CheckContext& context) {
  if (context.model == nullptr) {
    Random random(context.seed);
    const at::Tensor basis = drawn_orthogonal(random, 10);
    std::vector<double> angles;
    for (const int turns : {1, 2, 5, 3, 3}) angles.push_back(2 * std::numbers::pi * turns / 12);
    return judge_period({at::matmul(at::matmul(basis, rotation_blocks(angles)), basis.t())}, 12);
  }
  const Generators generators = generators_of(context);
  if (!generators.missing.empty()) {
    return not_measured(Verdict::premise_not_met, generators.missing);
  }
  if (generators.period > 0) return judge_period(generators.matrices, generators.period);
  const PeriodDistances distances = period_distances(generators.matrices[0], 64);
  CheckResult result =
      answer(Verdict::premise_not_met, {distances.whole, rounding(generators.dim(), 64), 0, 1},
             "premise: a period; these are matrices of a " + generators.kind +
                 ", and |W^64 - I| is " + short_number(distances.whole));
  result.curves = {powers_of(distances)};
  return result;
}

}  // namespace

PeriodDistances period_distances(const at::Tensor& w, std::int64_t period) {
  const at::Tensor identity = at::eye(w.size(0), at::kDouble);
  PeriodDistances out;
  out.nearest = 3;
  for (std::int64_t p = 1; p <= period; ++p) {
    out.by_power.push_back(spectral_norm(power_of(w, p) - identity));
    if (out.true_period == 0 && out.by_power.back() <= rounding(w.size(0), period)) {
      out.true_period = p;
    }
    if (p == period || out.by_power.back() >= out.nearest) continue;
    out.nearest = out.by_power.back(), out.nearest_at = p;
  }
  out.whole = out.by_power.back();
  return out;
}

std::int64_t period_of_turns(const std::vector<std::int64_t>& turns, std::int64_t n) {
  std::int64_t common = n;
  for (const std::int64_t k : turns) common = std::gcd(common, k);
  return n / common;
}

CheckResult judge_period(const Matrices& matrices, std::int64_t period) {
  const double bound = rounding(matrices[0].size(0), period);
  double whole = 0;
  std::int64_t shorter = 0;
  PeriodDistances worst;
  worst.nearest = 3;
  for (const at::Tensor& w : matrices) {
    const PeriodDistances got = period_distances(w, period);
    whole = worst_of(whole, got.whole);
    shorter += got.true_period > 0 && got.true_period < period;
    if (got.nearest <= worst.nearest) worst = got;
  }
  const bool holds = whole <= bound && shorter == 0;
  CheckResult result =
      answer(holds ? Verdict::holds : Verdict::fails,
             {whole, bound, power_rounding(matrices[0].size(0), static_cast<double>(period)),
              static_cast<std::int64_t>(matrices.size())},
             "|W^n - I| is " + short_number(whole) + " (n = " + std::to_string(period) +
                 "); before n the "
                 "nearest to I is W^" +
                 std::to_string(worst.nearest_at) + ", at " + short_number(worst.nearest) + "; " +
                 std::to_string(shorter) + " of " + std::to_string(matrices.size()) +
                 " have a shorter period" +
                 (shorter > 0 ? ", here " + std::to_string(worst.true_period) : ""));
  result.curves = {powers_of(worst)};
  return result;
}

TheoryCheck ape_periodic() {
  return {
      {.id = "ape.periodic",
       .statement = "W^n = I, and W^m differs from I for every m < n: planes that turn by "
                    "multiples of 2 pi/n have the period n / gcd(turns, n).",
       .source = "arXiv 2312.16045, Section 3.5, corrected",
       .title = "Periodic positions have exactly their period",
       .needs = "nothing, or a model with periodic APE",
       .rule = "holds where |W^n - I| is within rounding, 16 d n 2^-53, and no earlier power is"},
      &run_ape_periodic_domain,
      On::model_or_construction};
}

}  // namespace phasescope::analysis
