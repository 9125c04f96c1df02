#include "analysis/theory/tapa_nondegenerate.h"

#include <algorithm>
#include <cmath>

#include "analysis/random.h"
#include "analysis/theory/tapa_samples.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kTapaNondegeneratePairs = 20000;  // for +- 2 %
constexpr double kTapaNondegenerateIdentity =
    1e-12;  // float64, sums of some thousand terms of their size

CheckCurve ratio_curve(const std::string& label, const std::vector<TapaRow>& rows) {
  CheckCurve curve = curve_of(label, {"distance", "Var over c/2", true, false}, {}, {});
  for (const TapaRow& row : rows) {
    curve.x.push_back(row.distance), curve.y.push_back(row.ratio);
    curve.bound.push_back(1 - 3 * row.ratio_error);
  }
  return curve;
}

// Amplitudes of correlated halves, so that their mean is not 0; Gaussian phases.
CheckResult tapa_nondegenerate_alone(const CheckContext& context) {
  Random random(context.seed);
  constexpr int kDims = 8;
  constexpr double kSigma = 0.45, kAlpha = 0.2;
  std::vector<double> amplitude, phi;
  for (std::int64_t n = 0; n < kTapaNondegeneratePairs; ++n) {
    double a = 0, p = 0;
    for (int c = 0; c < kDims; ++c) {
      const double q = random.normal();
      a += q * (random.normal() + 0.6 * q);
      p += kSigma * random.normal() * kSigma * random.normal();
    }
    amplitude.push_back(a / std::sqrt(kDims)), phi.push_back(p / std::sqrt(kDims));
  }
  std::vector<TapaRow> rows;
  for (const double lambda : {1., 16., 256., 4096., 65536.}) {
    rows.push_back(tapa_row(tapa_pairs(lambda, kAlpha, amplitude, phi)));
  }
  const HeadVerdict verdict = judge_variance(rows);
  CheckResult result = answer(verdict.verdict, verdict.measured, verdict.why);
  result.samples = kTapaNondegeneratePairs;
  result.curves = {ratio_curve("drawn", rows)};
  return result;
}

CheckResult run_tapa_nondegenerate(const CheckContext& context) {
  if (context.model == nullptr) return tapa_nondegenerate_alone(context);
  const auto kept =
      tapa_samples(context, context.pairs > 0 ? context.pairs : kTapaNondegeneratePairs);
  const TapaSamples& samples = *kept;
  if (samples.heads.empty()) return samples.refused;
  std::vector<std::pair<std::string, HeadVerdict>> verdicts;
  std::vector<CheckCurve> curves;
  for (const TapaHead& head : samples.heads) {
    const std::vector<TapaRow> rows = tapa_rows(head.pairs);
    verdicts.emplace_back(head.name(), judge_variance(rows));
    curves.push_back(ratio_curve(head.name(), rows));
  }
  CheckResult result = over_heads(verdicts);
  result.curves = std::move(curves);
  return result;
}

}  // namespace

HeadVerdict judge_variance(const std::vector<TapaRow>& rows) {
  HeadVerdict out;
  double identity = 0, least = 1e300;
  std::int64_t met = 0;
  for (const TapaRow& row : rows) {
    identity = worst_of(identity, row.identity / std::max(1.0, row.ratio));
    if (std::abs(row.rest) > 3 * row.ratio_error) continue;
    ++met;
    if (row.ratio + 3 * row.ratio_error >= least) continue;
    least = row.ratio + 3 * row.ratio_error;
    out.measured = {row.ratio, 1 - 3 * row.ratio_error, row.ratio_error, 0};
  }
  out.measured.samples = static_cast<std::int64_t>(rows.size());
  const std::string exact =
      "on the same pairs Var/(c/2) - 1 equals its two terms to " + short_number(identity);
  if (!(identity <= kTapaNondegenerateIdentity)) {
    out.verdict = Verdict::fails;
    out.measured.value = identity, out.measured.bound = kTapaNondegenerateIdentity;
    out.why = exact + ": these are not scores of an amplitude times a cosine";
  } else if (met == 0) {
    out.verdict = Verdict::premise_not_met;
    const TapaRow& last = rows.back();
    out.measured.value = std::abs(last.rest), out.measured.bound = 3 * last.ratio_error;
    out.measured.noise = last.ratio_error;
    out.why = exact + "; premise: distances where those terms are within 3 standard errors, at " +
              short_number(last.distance) + " they are " + short_number(last.rest) + " +- " +
              short_number(last.ratio_error);
  } else {
    out.verdict = least >= 1 ? Verdict::holds : Verdict::fails;
    out.why = exact + "; at " + std::to_string(met) + " of " + std::to_string(rows.size()) +
              " distances they are within their noise, and there Var/(c/2) is at least " +
              short_number(out.measured.value) + " +- " + short_number(out.measured.noise);
  }
  return out;
}

TheoryCheck tapa_nondegenerate() {
  return {{.id = "tapa.nondegenerate",
           .statement = "liminf Var Attn(lambda) >= c/2, c = E (q_A.k_A)^2 / (t D).",
           .source = "arXiv 2509.12635, Theorem 3.3",
           .title = "TAPA's scores keep their variance",
           .needs = "nothing; of a TAPA model 8 texts or more",
           .rule = "fails where Var = c/2 + E[amp^2 cos 2 phase]/2 - (E score)^2 is off by more "
                   "than 1e-12 on the same pairs; holds where Var/(c/2) plus 3 standard errors "
                   "reaches 1 at every distance at which the last two terms are within 3; premise "
                   "not met where there is none"},
          &run_tapa_nondegenerate,
          On::model_or_construction,
          {.pairs = true}};
}

}  // namespace phasescope::analysis
