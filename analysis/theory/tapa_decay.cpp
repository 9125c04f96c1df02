#include "analysis/theory/tapa_decay.h"

#include <cmath>

#include "analysis/random.h"
#include "analysis/theory/tapa_samples.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kLost = 4, kFall = 3;         // standard errors
constexpr std::int64_t kPairsOfModel = 20000;  // a head
constexpr std::int64_t kPairsDrawn = 100000;
constexpr double kWorthMeasuring = 0.01;  // of E cos

// q_P, k_P independent N(0, sigma^2), their phase q.k / sqrt n.
std::vector<double> drawn_phases(const GaussianPhase& law, std::int64_t pairs, Random& random) {
  std::vector<double> phases;
  for (std::int64_t n = 0; n < pairs; ++n) {
    double sum = 0;
    for (std::int64_t c = 0; c < law.dims; ++c) sum += random.normal() * random.normal();
    phases.push_back(law.sigma * law.sigma * sum / std::sqrt(static_cast<double>(law.dims)));
  }
  return phases;
}

CheckCurve cosine_curve(const std::string& label, const std::vector<TapaRow>& rows) {
  CheckCurve curve = curve_of(label, {"distance", "E cos(phase)", true, false}, {}, {});
  for (const TapaRow& row : rows) {
    curve.x.push_back(row.distance), curve.y.push_back(row.cosine.mean);
  }
  return curve;
}

CheckResult tapa_decay_alone(const CheckContext& context) {
  Random random(context.seed);
  const GaussianPhase law{0.2, 0.45, 8};
  const std::vector<double> phi = drawn_phases(law, kPairsDrawn, random);
  const std::vector<double> ones(phi.size(), 1);
  double worst_z = 0, worst_bound = 0, worst_slope = 0;
  std::vector<TapaRow> rows;
  CheckCurve closed = curve_of("closed form", {"distance", "E cos(phase)", true, false}, {}, {});
  for (const double lambda : {1., 4., 16., 64., 256., 1024., 4096.}) {
    context.progress->throw_if_cancelled();
    const TapaRow& row = rows.emplace_back(tapa_row(tapa_pairs(lambda, law.alpha, ones, phi)));
    const double wanted = law.mean_cosine(lambda);
    closed.x.push_back(lambda), closed.y.push_back(wanted);
    worst_bound = worst_of(worst_bound, wanted / law.bound(lambda));
    const double step = 1e-4, up = law.mean_cosine(lambda * std::exp(step)),
                 down = law.mean_cosine(lambda * std::exp(-step));
    worst_slope =
        worst_of(worst_slope,
                 std::abs((std::log(up) - std::log(down)) / (2 * step) / law.slope(lambda) - 1));
    if (wanted < kWorthMeasuring) continue;
    worst_z = worst_of(worst_z, std::abs(row.cosine.mean - wanted) / row.cosine.error);
  }
  Parts parts;
  parts.below("standard errors between the mean cosine drawn and the closed form", worst_z, kLost);
  parts.below("closed form over C lambda^(-alpha n)", worst_bound, 1);
  // Differences over 2e-4 in ln lambda leave some 1e-8 of a slope.
  parts.below("slope from -alpha n g/(1 + g), relative", worst_slope, 1e-6);
  CheckResult result = parts.result(1);
  result.samples = kPairsDrawn;
  result.curves = {cosine_curve("drawn", rows), std::move(closed)};
  return result;
}

CheckResult run_tapa_decay(const CheckContext& context) {
  if (context.model == nullptr) return tapa_decay_alone(context);
  const auto kept = tapa_samples(context, context.pairs > 0 ? context.pairs : kPairsOfModel);
  const TapaSamples& samples = *kept;
  if (samples.heads.empty()) return samples.refused;
  std::vector<std::pair<std::string, HeadVerdict>> verdicts;
  std::vector<CheckCurve> curves;
  for (const TapaHead& head : samples.heads) {
    const std::vector<TapaRow> rows = tapa_rows(head.pairs);
    verdicts.emplace_back(head.name(), judge_decay(rows, rows.front().amplitude));
    curves.push_back(cosine_curve(head.name(), rows));
  }
  CheckResult result = over_heads(verdicts);
  result.curves = std::move(curves);
  return result;
}

}  // namespace

HeadVerdict judge_decay(const std::vector<TapaRow>& rows, const MeanError& amplitude) {
  const TapaRow &first = rows.front(), &last = rows.back();
  const double fall = first.cosine.mean - last.cosine.mean;
  const double error = std::hypot(first.cosine.error, last.cosine.error);
  HeadVerdict out;
  out.measured = {fall, kFall * error, error, static_cast<std::int64_t>(rows.size())};
  out.why = "E cos(phase) goes from " + short_number(first.cosine.mean) + " at distance " +
            short_number(first.distance) + " to " + short_number(last.cosine.mean) + " +- " +
            short_number(last.cosine.error) + " at " + short_number(last.distance) +
            ", the mean score from " + short_number(first.score.mean) + " to " +
            short_number(last.score.mean) + " +- " + short_number(last.score.error);
  const bool within = std::abs(last.cosine.mean) < kLost * last.cosine.error;
  if (std::abs(amplitude.mean) < 3 * amplitude.error) {
    out.verdict = Verdict::premise_not_met;
    out.why = "premise: a mean amplitude off 0, here " + short_number(amplitude.mean) + " +- " +
              short_number(amplitude.error) + "; " + out.why;
  } else if (!(fall > out.measured.bound)) {
    out.verdict = Verdict::fails;
  } else if (!within) {
    out.verdict = Verdict::premise_not_met;
    out.why = "premise: distances far enough that E cos(phase) is within its noise; " + out.why;
  } else {
    const bool gone = std::abs(last.score.mean) < kLost * last.score.error;
    out.verdict = gone ? Verdict::holds : Verdict::fails;
  }
  return out;
}

TheoryCheck tapa_decay() {
  return {{.id = "tapa.decay",
           .statement = "|E Attn(lambda)| <= C lambda^(-alpha (1 - t) D); for Gaussian q and k, E "
                        "cos(phase) = (1 + g)^(-n/2), g = (2 pi lambda^alpha)^2 sigma^4 / n.",
           .source = "arXiv 2509.12635, Theorem 3.2",
           .title = "TAPA's mean score falls with distance",
           .needs = "nothing; of a TAPA model 8 texts or more",
           .rule = "of Gaussian draws: the closed form within 4 standard errors where it is above "
                   "0.01, and below the bound. Of a model: holds where E cos(phase) falls by more "
                   "than 3 standard errors and the last mean score is within 4 of 0; premise not "
                   "met where the mean amplitude is within 3, or the last E cos(phase) is not "
                   "within 4 of 0"},
          &run_tapa_decay,
          On::model_or_construction,
          {.pairs = true}};
}

}  // namespace phasescope::analysis
