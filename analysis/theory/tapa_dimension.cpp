#include "analysis/theory/tapa_dimension.h"

#include <cmath>
#include <numbers>

#include "analysis/random.h"
#include "analysis/statistics.h"
#include "analysis/theory/tapa_samples.h"
#include "analysis/worst.h"

namespace phasescope::analysis {
namespace {

constexpr double kTapaDimensionAlpha = 0.1;
constexpr double kTapaDimensionGrowth = 0.05;         // variance s sqrt n
constexpr double kNoFall = 1e-9;                      // a dimension
constexpr std::int64_t kTapaDimensionPairs = 400000;  // of the Monte Carlo
constexpr double kTapaDimensionWithin = 4;            // standard errors

double turn(double lambda) { return 2 * std::numbers::pi * std::pow(lambda, kTapaDimensionAlpha); }

CosineOfDims growing_variance(double lambda) {
  return [lambda](std::int64_t n) {
    const double variance = kTapaDimensionGrowth * std::sqrt(static_cast<double>(n));
    return GaussianPhase{kTapaDimensionAlpha, std::sqrt(variance), n}.mean_cosine(lambda);
  };
}

// Standard errors between a drawn mean cosine and its closed form.
double monte_carlo(const GaussianPhase& law, double lambda, Random& random) {
  std::vector<double> cosine;
  const double scale =
      turn(lambda) * law.sigma * law.sigma / std::sqrt(static_cast<double>(law.dims));
  for (std::int64_t n = 0; n < kTapaDimensionPairs; ++n) {
    double sum = 0;
    for (std::int64_t c = 0; c < law.dims; ++c) sum += random.normal() * random.normal();
    cosine.push_back(std::cos(scale * sum));
  }
  const MeanError drawn = mean_error(cosine, {});
  return std::abs(drawn.mean - law.mean_cosine(lambda)) / drawn.error;
}

CheckCurve curve_of_law(const std::string& label, const CosineOfDims& law) {
  CheckCurve curve = curve_of(label, {"n = (1 - t) D", "E cos(phase)", true, false}, {}, {});
  for (std::int64_t n = 2; n <= (1 << 20); n *= 2) {
    curve.x.push_back(static_cast<double>(n)), curve.y.push_back(law(n));
  }
  return curve;
}

CheckResult tapa_dimension_alone(const CheckContext& context) {
  const double rate = 0.5 * std::log1p(std::pow(turn(1) * kTapaDimensionGrowth, 2));
  CheckResult result = judge_dimension({8, 16, 32, 64, 128}, growing_variance(1), rate);
  Random random(context.seed);
  const double z = worst_of(monte_carlo({kTapaDimensionAlpha, 0.5, 4}, 4, random),
                            monte_carlo({kTapaDimensionAlpha, 0.4, 8}, 64, random));
  const auto fixed = [](std::int64_t n) {
    return GaussianPhase{kTapaDimensionAlpha, 0.3, n}.mean_cosine(1);
  };
  const auto signs = [](std::int64_t n) {
    return signs_mean_cosine(1, kTapaDimensionAlpha, 0.3, n);
  };
  result.detail += "; Monte Carlo is within " + short_number(z) +
                   " standard errors of the closed form; with a variance that stays the bias tends "
                   "to " +
                   short_number(fixed_variance_limit(1, kTapaDimensionAlpha, 0.3)) +
                   " (n = 2: " + short_number(fixed(2)) +
                   ", signs in place of Gaussians: " + short_number(signs(2)) + ")";
  if (!(z <= kTapaDimensionWithin)) result.verdict = name_of(Verdict::fails);
  result.samples = kTapaDimensionPairs;
  result.curves = {curve_of_law("variance .05 sqrt n", growing_variance(1)),
                   curve_of_law("variance .09, Gaussian", fixed),
                   curve_of_law("variance .09, signs", signs)};
  return result;
}

// What the head of the largest g would do in heads of other sizes: its g kept, or the variance of
// its q and k, below its limit n g / 2.
CheckCurve at_other_sizes(const std::string& label, double dims, double g, bool same_variance) {
  CheckCurve curve =
      curve_of(label, {"n = (1 - t) D", "-ln E cos, Gaussian q and k", true, true}, {}, {});
  for (double n = 2; n <= 0x1p20; n *= 2) {
    const double here = same_variance ? g * dims / n : g;
    curve.x.push_back(n), curve.y.push_back(n / 2 * std::log1p(here));
    if (same_variance) curve.bound.push_back(dims * g / 2);
  }
  return curve;
}

// A model has one D: g, and what it would do in another one.
CheckResult run_tapa_dimension(const CheckContext& context) {
  if (context.model == nullptr) return tapa_dimension_alone(context);
  const auto kept = tapa_samples(context, context.pairs > 0 ? context.pairs : 5000);
  const TapaSamples& samples = *kept;
  if (samples.heads.empty()) return samples.refused;
  const auto dims = static_cast<double>(samples.phase_channels);
  double largest = 0;
  CheckCurve heads = curve_of("g of each head", {"head", "g", false, false}, {}, {});
  for (const TapaHead& head : samples.heads) {
    double squares = 0;
    const TapaPairs& near = head.pairs.front();
    for (const double angle : near.angle) squares += angle * angle;
    // Var of the phase's angle is n g / n.
    const double g = squares / static_cast<double>(near.angle.size()) / dims;
    largest = worst_of(largest, g);
    heads.x.push_back(static_cast<double>(heads.x.size())), heads.y.push_back(g);
  }
  const double exact = dims / 2 * std::log1p(largest);
  CheckResult result =
      answer(Verdict::premise_not_met,
             {exact, dims * largest / 2, 0, static_cast<std::int64_t>(samples.heads.size())},
             "premise: several head sizes; a model has one. n = " + short_number(dims) +
                 ", the largest g of a head is " + short_number(largest) +
                 ", (n/2) ln(1 + g) = " + short_number(exact) +
                 " and its limit n g/2 = " + short_number(dims * largest / 2));
  result.curves = {at_other_sizes("g as it is, variance like sqrt n", dims, largest, false),
                   at_other_sizes("variance as it is, g like 1/n", dims, largest, true),
                   std::move(heads)};
  return result;
}

}  // namespace

double signs_mean_cosine(double lambda, double alpha, double sigma, std::int64_t dims) {
  const double angle = 2 * std::numbers::pi * std::pow(lambda, alpha) * sigma * sigma /
                       std::sqrt(static_cast<double>(dims));
  return std::pow(std::cos(angle), static_cast<double>(dims));
}

double fixed_variance_limit(double lambda, double alpha, double sigma) {
  const double angle = 2 * std::numbers::pi * std::pow(lambda, alpha) * sigma * sigma;
  return std::exp(-angle * angle / 2);
}

CheckResult judge_dimension(const std::vector<std::int64_t>& dims, const CosineOfDims& mean_cosine,
                            double rate) {
  std::vector<double> x, y;
  for (const std::int64_t n : dims) {
    x.push_back(static_cast<double>(n));
    y.push_back(-std::log(mean_cosine(n)));
  }
  const double measured = fit_line(x, y).slope;
  const bool holds = std::abs(measured / rate - 1) <= 1e-12 && measured > kNoFall;
  return answer(holds ? Verdict::holds : Verdict::fails,
                {measured, rate, std::abs(measured - rate), static_cast<std::int64_t>(dims.size())},
                "ln E cos(phase) falls by " + short_number(measured) +
                    " a dimension, ln(1 + g)/2 is " + short_number(rate));
}

TheoryCheck tapa_dimension() {
  return {{.id = "tapa.dimension",
           .statement = "The bias falls exponentially with D where the phases' variance grows like "
                        "sqrt n: by ln(1 + g)/2 a dimension for Gaussian q and k. With a variance "
                        "that stays it tends to exp(-(2 pi lambda^alpha sigma^2)^2 / 2), a "
                        "constant.",
           .source = "arXiv 2509.12635, remark to Theorem 3.2, corrected",
           .title = "When TAPA's bias falls with the head size",
           .needs = "nothing; of a TAPA model 8 texts or more",
           .rule = "holds where ln E cos falls by ln(1 + g)/2 a dimension to 1e-12, by more than "
                   "1e-9, and Monte Carlo agrees within 4 standard errors; of a model, which has "
                   "one D, premise not met, with g measured"},
          &run_tapa_dimension,
          On::model_or_construction,
          {.pairs = true}};
}

}  // namespace phasescope::analysis
