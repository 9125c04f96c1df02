#include "analysis/theory/tapa_linear_phase.h"

#include <cmath>
#include <numbers>

#include "analysis/random.h"
#include "analysis/theory/matrix_product.h"
#include "analysis/theory/tapa_samples.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kRankTwo = 1e-12;            // third singular value over the first, float64
constexpr double kTapaLinearPhaseWithin = 4;  // standard errors
constexpr std::int64_t kTapaLinearPhasePairs = 400000;
constexpr std::int64_t kSide = 48;  // queries and keys of the rank test
constexpr double kTapaLinearPhaseAlpha = 0.1;

double turn_of(double lambda, double alpha) {
  return 2 * std::numbers::pi * std::pow(lambda, alpha);
}

std::vector<double> normals(Random& random, std::int64_t count, double sigma) {
  std::vector<double> values;
  for (std::int64_t n = 0; n < count; ++n) values.push_back(sigma * random.normal());
  return values;
}

// Standard errors between the mean cosine of drawn linear phases and its closed form.
double monte_carlo(double lambda, double sigma, std::int64_t dims, Random& random) {
  std::vector<double> cosine;
  const double scale =
      turn_of(lambda, kTapaLinearPhaseAlpha) * sigma / std::sqrt(static_cast<double>(dims));
  for (std::int64_t n = 0; n < kTapaLinearPhasePairs; ++n) {
    double sum = 0;
    for (std::int64_t c = 0; c < 2 * dims; ++c) sum += random.normal();
    cosine.push_back(std::cos(scale * sum));
  }
  const MeanError drawn = mean_error(cosine, {});
  return std::abs(drawn.mean - linear_mean_cosine(lambda, kTapaLinearPhaseAlpha, sigma)) /
         drawn.error;
}

CheckCurve cosine_by_distance(bool linear, double sigma) {
  CheckCurve curve = curve_of(linear ? "linear phase" : "quadratic phase, n = 32",
                              {"distance", "E cos(phase)", true, false}, {}, {});
  for (const double lambda : {1., 4., 16., 64., 256., 1024., 4096., 16384., 65536.}) {
    curve.x.push_back(lambda);
    curve.y.push_back(linear ? linear_mean_cosine(lambda, kTapaLinearPhaseAlpha, sigma)
                             : GaussianPhase{kTapaLinearPhaseAlpha, sigma, 32}.mean_cosine(lambda));
  }
  return curve;
}

CheckResult tapa_linear_phase_alone(const CheckContext& context) {
  Random random(context.seed);
  constexpr std::int64_t kDims = 8;
  constexpr double kSigma = 0.12;
  const double z = monte_carlo(16, kSigma, kDims, random);
  const std::vector<double> q = normals(random, kSide * kDims, 0.8),
                            k = normals(random, kSide * kDims, 0.8);
  const auto third = [&](bool linear) {
    return third_singular_value(
        phase_cosines(q, k, kDims, turn_of(16, kTapaLinearPhaseAlpha), linear), kSide);
  };
  CheckResult result =
      judge_linear_phase(third(true), linear_mean_cosine(1, kTapaLinearPhaseAlpha, kSigma),
                         linear_mean_cosine(65536, kTapaLinearPhaseAlpha, kSigma), z);
  result.detail += "; the quadratic phase's third singular value is " + short_number(third(false)) +
                   " of its first; the mean over keys of a query with q_P = 0 is 1 for it, and at "
                   "most " +
                   short_number(linear_given_query(16, kTapaLinearPhaseAlpha, 0.8, 0, kDims)) +
                   " for the linear one";
  result.samples = kTapaLinearPhasePairs;
  result.curves = {cosine_by_distance(true, 0.1), cosine_by_distance(false, 0.1)};
  return result;
}

CheckResult tapa_linear_phase_of_model(const TapaSamples& samples) {
  std::vector<std::pair<std::string, HeadVerdict>> verdicts;
  std::vector<CheckCurve> curves;
  for (const TapaHead& head : samples.heads) {
    const std::vector<TapaRow> rows = tapa_rows(head.pairs);
    const TapaRow &near = rows.front(), &far = rows.back();
    const double fall = near.cosine.mean - far.cosine.mean;
    const double error = std::hypot(near.cosine.error, far.cosine.error);
    HeadVerdict verdict;
    verdict.verdict = fall > 3 * error ? Verdict::holds : Verdict::fails;
    verdict.measured = {fall, 3 * error, error, static_cast<std::int64_t>(rows.size())};
    verdict.why = "E cos(phase) goes from " + short_number(near.cosine.mean) + " to " +
                  short_number(far.cosine.mean);
    verdicts.emplace_back(head.name(), verdict);
    CheckCurve& curve = curves.emplace_back(
        curve_of(head.name(), {"distance", "E cos(phase)", true, false}, {}, {}));
    for (const TapaRow& row : rows) {
      curve.x.push_back(row.distance), curve.y.push_back(row.cosine.mean);
    }
  }
  CheckResult result = over_heads(verdicts);
  result.curves = std::move(curves);
  return result;
}

CheckResult run_tapa_linear_phase(const CheckContext& context) {
  if (context.model == nullptr) return tapa_linear_phase_alone(context);
  const auto kept = tapa_samples(context, context.pairs > 0 ? context.pairs : 20000);
  const TapaSamples& samples = *kept;
  if (samples.heads.empty()) return samples.refused;
  CheckResult result = tapa_linear_phase_of_model(samples);
  if (samples.linear_phase) return result;
  result.verdict = name_of(Verdict::premise_not_met);
  result.detail =
      "premise: a linear phase; this model's is quadratic. Measured all the same: " + result.detail;
  return result;
}

}  // namespace

double linear_mean_cosine(double lambda, double alpha, double sigma) {
  const double angle = turn_of(lambda, alpha) * sigma;
  return std::exp(-angle * angle);
}

double linear_slope(double lambda, double alpha, double sigma) {
  const double angle = turn_of(lambda, alpha) * sigma;
  return -2 * alpha * angle * angle;
}

double quadratic_given_query(double lambda, double alpha, double sigma, double norm,
                             std::int64_t dims) {
  const double angle = turn_of(lambda, alpha) * sigma * norm;
  return std::exp(-angle * angle / (2 * static_cast<double>(dims)));
}

double linear_given_query(double lambda, double alpha, double sigma, double sum,
                          std::int64_t dims) {
  const double angle = turn_of(lambda, alpha);
  return std::cos(angle * sum / std::sqrt(static_cast<double>(dims))) *
         std::exp(-angle * sigma * angle * sigma / 2);
}

double third_singular_value(const std::vector<double>& cosines, std::int64_t size) {
  const std::vector<double> values = singular_values(cosines, size, size);
  return values[2] / values[0];
}

std::vector<double> phase_cosines(const std::vector<double>& q, const std::vector<double>& k,
                                  std::int64_t dims, double turn, bool linear) {
  const auto width = static_cast<std::size_t>(dims);
  const std::size_t rows = q.size() / width;
  std::vector<double> out;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rows; ++j) {
      double phase = 0;
      for (std::size_t c = 0; c < width; ++c) {
        const double a = q[i * width + c], b = k[j * width + c];
        phase += linear ? a + b : a * b;
      }
      out.push_back(std::cos(turn * phase / std::sqrt(static_cast<double>(dims))));
    }
  }
  return out;
}

CheckResult judge_linear_phase(double third_over_first, double near_cosine, double far_cosine,
                               double z) {
  Parts parts;
  parts.below("third singular value of cos(phase) over the first", third_over_first, kRankTwo);
  parts.below("standard errors between drawn and closed form", z, kTapaLinearPhaseWithin);
  parts.control("fall of E cos(phase) with distance", near_cosine - far_cosine, 1e-6);
  return parts.result(1);
}

TheoryCheck tapa_linear_phase() {
  return {{.id = "tapa.linear_phase",
           .statement = "With phi = (sum q_P + sum k_P)/sqrt n and Gaussian coordinates, E "
                        "cos(phase) = exp(-(2 pi lambda^alpha sigma)^2) for every n; at one "
                        "distance cos(phase) is a matrix of rank 2 in (query, key).",
           .source = "arXiv 2509.12635, Section 5.7 and Appendix J",
           .title = "What falls under TAPA's linear phase",
           .needs = "nothing; of a TAPA model 8 texts or more",
           .rule = "holds where the drawn mean is within 4 standard errors of the closed form and "
                   "the third singular value is below 1e-12 of the first; of a model with a linear "
                   "phase where E cos(phase) falls by more than 3 standard errors"},
          &run_tapa_linear_phase,
          On::model_or_construction,
          {.pairs = true}};
}

}  // namespace phasescope::analysis
