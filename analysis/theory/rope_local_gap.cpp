#include "analysis/theory/rope_local_gap.h"

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <numbers>

#include "analysis/theory/rope_angles.h"
#include "analysis/theory/verdicts.h"
#include "protocol/head_name.h"

namespace phasescope::analysis {
namespace {

constexpr double kRopeLocalGapShare = 0.125;  // of |mu|

// Premises: theta_0 < exp(-64 (|mu| + |nu|) / |mu|), 1 < near < base^(1/4) / 8, far > base.
std::vector<GapCase> default_cases() {
  std::vector<GapCase> cases;
  for (const auto& [mu, nu] :
       {std::pair{1.0, 0.0}, std::pair{1.3, 0.6}, std::pair{-1.0, 0.3}, std::pair{0.7, -0.7}}) {
    const double ln_base = 64 * (std::abs(mu) + std::abs(nu)) / std::abs(mu) + 1;
    const double last = std::exp(ln_base / 4) / 8;
    for (const double near : spread_in_log(1.01, 0.99 * last, 8)) {
      for (const double times : {1.01, 3.0, 1e3, 1e6}) {
        cases.push_back({mu, nu, ln_base, near, times * std::exp(ln_base)});
      }
    }
  }
  return cases;
}

CheckCurve curve_by_distance() {
  CheckCurve curve = curve_of("gap over |mu|, mu = 1, nu = 0, base e^65",
                              {"near distance (the paper's)", "gap", true, false}, {}, {});
  for (const double near : spread_in_log(1.01, 1e27, 60)) {
    curve.x.push_back(near);
    curve.y.push_back(limit_gap({1, 0, 65, near, 1.01 * std::exp(65.0)}));
    curve.bound.push_back(kRopeLocalGapShare);
  }
  return curve;
}

CheckResult rope_local_gap_alone() {
  CheckResult result = judge_gaps(default_cases(), limit_gap);
  const GapCase finite{1, 0, 65, 100, 1.5 * std::exp(65.0)};
  result.detail += "; with D = 1024 the gap is " + short_number(finite_gap(finite, 1024)) +
                   " where the limit is " + short_number(limit_gap(finite)) +
                   "; not for every far distance at once: theta_0 = (2/3)^256, D = 512, near 2, "
                   "far 3^255 gives " +
                   short_number(counterexample_gap());
  result.curves = {curve_by_distance()};
  return result;
}

// A model's distances: near one token, far one and a half times 2 pi base.
CheckResult rope_local_gap_of_model(const CheckContext& context, const GeometricAngles& angles) {
  const double ln_base = std::log(angles.base);
  const double far = std::round(3 * std::numbers::pi * angles.base);
  double worst = 1e300;
  std::string name;
  Measured measured;
  std::int64_t above = 0;
  CheckCurve curve = curve_of("gap of each head", {"head", "gap", false, false}, {}, {});
  for (const HeadCoefficients& head : coefficients_of(context)) {
    const GapCase gap{head.mu, head.nu, ln_base, 1, far};
    const double value = gap_between(gap, frequency_sums(1, ln_base, angles.dim, Angles::model),
                                     frequency_sums(far, ln_base, angles.dim, Angles::model));
    const double bound = kRopeLocalGapShare * std::abs(head.mu);
    above += value > bound;
    curve.x.push_back(static_cast<double>(curve.x.size()));
    curve.y.push_back(value), curve.bound.push_back(bound);
    if (std::isnan(worst) || value / bound >= worst) continue;
    worst = value / bound;
    measured = {value, bound, 0, 0};
    name = protocol::name_of_head(head.layer, head.head);
  }
  measured.samples = static_cast<std::int64_t>(curve.x.size());
  CheckResult result =
      answer(Verdict::premise_not_met, measured,
             "premise: a base above e^64 = 6.2e+27, here " + short_number(angles.base) +
                 "; its local range ends at a distance of " +
                 short_number(2 * std::numbers::pi * std::pow(angles.base, 0.25) / 8) +
                 " tokens. Measured all the same, between 1 and " + short_number(far) +
                 " tokens: " + std::to_string(above) + " of " + std::to_string(measured.samples) +
                 " heads have a gap above |mu|/8, the smallest share is that of " + name);
  result.curves = {std::move(curve)};
  return result;
}

CheckResult run_rope_local_gap(const CheckContext& context) {
  if (context.model == nullptr) return rope_local_gap_alone();
  const GeometricAngles angles = geometric_angles_of(context);
  if (!angles.missing.empty()) return not_measured(Verdict::premise_not_met, angles.missing);
  return rope_local_gap_of_model(context, angles);
}

}  // namespace

double gap_between(const GapCase& gap, const CosSin& near, const CosSin& far) {
  const double sign = gap.mu < 0 ? -1 : 1;
  return sign * (gap.mu * (near.c - far.c) + gap.nu * (near.s - far.s));
}

double limit_gap(const GapCase& gap) {
  return gap_between(gap, limit_sums(gap.near, gap.ln_base), limit_sums(gap.far, gap.ln_base));
}

double finite_gap(const GapCase& gap, std::int64_t dim) {
  return gap_between(gap, exact_frequency_sums(gap.near, gap.ln_base, dim, Angles::paper),
                     exact_frequency_sums(gap.far, gap.ln_base, dim, Angles::paper));
}

double counterexample_gap() {
  using Exact = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<300>,
                                              boost::multiprecision::et_off>;
  constexpr int kDim = 512;
  const Exact ratio = Exact(2) / 3;
  Exact near = 2, far = pow(Exact(3), kDim / 2 - 1);
  double sum = 0;
  for (int d = 0; d < kDim / 2; ++d, near *= ratio, far *= ratio) {
    sum += std::cos(2 * std::numbers::pi * static_cast<double>(Exact(near - floor(near)))) -
           std::cos(2 * std::numbers::pi * static_cast<double>(Exact(far - floor(far))));
  }
  return sum / kDim;
}

CheckResult judge_gaps(const std::vector<GapCase>& cases,
                       const std::function<double(const GapCase&)>& gap) {
  double least = 1e300;
  Measured measured;
  for (const GapCase& one : cases) {
    const double value = gap(one), bound = kRopeLocalGapShare * std::abs(one.mu);
    if (std::isnan(least) || value / bound >= least) continue;
    least = value / bound;
    measured = {value, bound, 0, 0};
  }
  measured.samples = static_cast<std::int64_t>(cases.size());
  return answer(least > 1 ? Verdict::holds : Verdict::fails, measured,
                "smallest gap of " + std::to_string(cases.size()) +
                    " cases that meet the premises: " + short_number(measured.value) +
                    ", which must exceed |mu|/8 = " + short_number(measured.bound));
}

TheoryCheck rope_local_gap() {
  return {{.id = "rope.local_gap",
           .statement = "For 1 < lambda < theta_0^(-1/4)/8 and Lambda > 1/theta_0, sgn(mu) (E "
                        "Attn(lambda) - E Attn(Lambda)) / sqrt D > |mu|/8, if theta_0 < exp(-64 "
                        "(|mu| + |nu|)/|mu|) and D is large enough for theta_0, lambda and Lambda.",
           .source = "arXiv 2509.12635, Theorem 2.2 (last version: 2.3)",
           .title = "RoPE favours near keys over those past 1/theta_0",
           .needs = "nothing; of a model its angles and coefficients on a text",
           .rule = "holds where the gap of every case that meets the premises exceeds |mu|/8, in "
                   "the limit of many planes; of a model premise not met, with its gap measured"},
          &run_rope_local_gap,
          On::model_or_construction};
}

}  // namespace phasescope::analysis
