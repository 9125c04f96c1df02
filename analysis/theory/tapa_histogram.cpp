#include "analysis/theory/tapa_histogram.h"

#include <algorithm>
#include <cmath>

#include "analysis/distance.h"
#include "analysis/intrinsic_bias.h"
#include "analysis/model_sides.h"
#include "analysis/near_far_sampler.h"
#include "analysis/theory/equality.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kPairs = 10000;
constexpr double kWidestInterval = 0.25;  // half-width of a decided interval around 0, in sigma

std::string interval_text(const NearFar& h) {
  return short_number(h.mean) + " [" + short_number(h.mean_low) + ", " + short_number(h.mean_high) +
         "]";
}

CheckCurve curve_of(const NearFar& histogram, const std::string& label) {
  CheckCurve curve{label, "score(near) - score(far)", "samples", false, false, {}, {}, {}};
  for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
    curve.x.push_back((histogram.edges[b] + histogram.edges[b + 1]) / 2);
    curve.y.push_back(static_cast<double>(histogram.counts[b]));
  }
  return curve;
}

Verdict verdict_of(const NearFar& histogram, BiasClaim claim, double half,
                   std::int64_t fewest_texts) {
  if (claim == BiasClaim::no_claim) return Verdict::premise_not_met;
  if (histogram.texts < fewest_texts || !std::isfinite(half)) return Verdict::undecided;
  if (claim == BiasClaim::near_favoured) {
    if (histogram.mean_low > 0) return Verdict::holds;
    return histogram.mean_high > 0 ? Verdict::undecided : Verdict::fails;
  }
  const bool holds_zero = histogram.mean_low <= 0 && histogram.mean_high >= 0;
  if (!holds_zero) return Verdict::fails;
  return half <= kWidestInterval * histogram.sigma ? Verdict::holds : Verdict::undecided;
}

BiasClaim claim_of(TextPass& pass) {
  if (pass.layer(0)->program().kind == model::AttentionProgram::Kind::tapa) {
    return BiasClaim::none_left;
  }
  const model::Encoding& encoding = pass.model().encoding();
  const bool rotates =
      encoding.info().has_state &&
      encoding.frequencies(start_context(pass.model().decoder, pass.tokens(), at::kDouble))
          .defined();
  return rotates ? BiasClaim::near_favoured : BiasClaim::no_claim;
}

const char* claim_text(BiasClaim claim) {
  switch (claim) {
    case BiasClaim::none_left:
      return "the paper's 7B TAPA: mean 0.03, sigma 3.3";
    case BiasClaim::near_favoured:
      return "the paper's 7B RoPE: mean 4.1, sigma 0.85";
    case BiasClaim::no_claim:
      return "the paper has no figure for this encoding";
  }
  return "";
}

CheckResult run(const CheckContext& context) {
  if (!is_causal_decoder(context.model->config())) {
    CheckResult result;
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail =
        "near and far are told among the keys before a query; this is no causal decoder";
    return result;
  }
  NearFarSpec spec =
      default_near_far(context.texts->longest(), context.texts->starts_with_bos ? 1 : 0);
  spec.pairs = context.pairs > 0 ? context.pairs : kPairs;
  spec.seed = context.seed;
  const std::int64_t shortest = shortest_for_near_far(spec.first_key);
  if (context.texts->longest() < shortest) {
    CheckResult result;
    result.verdict = name_of(Verdict::undecided);
    result.detail = "near and far keys need texts of at least " + std::to_string(shortest) +
                    " tokens, the longest here has " + std::to_string(context.texts->longest());
    return result;
  }
  check_near_far(spec, context.texts->longest());
  TextPass first(context.model, first_ids(context, 64), asked_options(context));
  const BiasClaim claim = claim_of(first);
  const Clusters deltas = sample_near_far(context.model, *context.texts, spec, context.backend,
                                          *context.progress, context.kernels);
  const NearFar histogram = near_far_of(spec, deltas, "clustered by text");
  if (histogram.texts == 0) {
    CheckResult result;
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail =
        "premise: near and far keys that a query sees; no query sees both of a sample, "
        "far being " +
        std::to_string(spec.far_begin) + " tokens away or more";
    return result;
  }
  const NearFar shuffled =
      near_far_of(spec, shuffled_deltas(deltas, context.seed), "clustered by text");
  CheckResult result = judge_histogram(histogram, shuffled, claim);
  result.detail += "; near [" + std::to_string(spec.near_begin) + ", " +
                   std::to_string(spec.near_end) + "), far [" + std::to_string(spec.far_begin) +
                   ", " + std::to_string(spec.far_end) + "), " + claim_text(claim);
  return result;
}

}  // namespace

Clusters shuffled_deltas(const Clusters& deltas, std::uint64_t seed) {
  Random random(seed ^ 0x5bd1e995);
  Clusters shuffled = deltas;
  for (auto& list : shuffled.values) {
    for (double& delta : list) {
      if (random.next() >> 63) delta = -delta;
    }
  }
  return shuffled;
}

CheckResult judge_histogram(const NearFar& histogram, const NearFar& shuffled, BiasClaim claim,
                            std::int64_t fewest_texts) {
  CheckResult result;
  const double half = (histogram.mean_high - histogram.mean_low) / 2;
  result.value = histogram.mean;
  result.bound = 0;
  result.noise = half;
  result.samples = histogram.pairs;
  result.verdict = name_of(verdict_of(histogram, claim, half, fewest_texts));
  result.detail = "mean " + interval_text(histogram) + " over " + std::to_string(histogram.texts) +
                  " texts, sigma " + short_number(histogram.sigma) + ", skewness " +
                  short_number(histogram.skewness) + ", " +
                  short_number(100 * histogram.share_positive) +
                  " % above 0; with the distances shuffled " + interval_text(shuffled);
  if (result.verdict == name_of(Verdict::undecided)) {
    const double target = kWidestInterval * histogram.sigma;
    const double texts = static_cast<double>(histogram.texts) * std::pow(half / target, 2);
    const auto needed = std::isfinite(texts) ? static_cast<std::int64_t>(std::ceil(texts)) : 0;
    result.detail +=
        "; about " + std::to_string(std::max(fewest_texts, needed)) + " texts would decide";
  }
  // Signs drawn at random leave nothing but noise; more than that is a fault of the sampling.
  if (shuffled.mean_low > 0 || shuffled.mean_high < 0) {
    result.detail += " (the shuffled mean is off 0 by more than its interval, which 1 of 20 is)";
  }
  result.curves = {curve_of(histogram, "measured"), curve_of(shuffled, "distances shuffled")};
  return result;
}

TheoryCheck tapa_histogram() {
  return {{"tapa.histogram",
           "The mean of score(near key) - score(far key) is 0 under TAPA and above 0 under RoPE.",
           "arXiv 2509.12635, Appendix I, Figures 1 and 2"},
          &run};
}

}  // namespace phasescope::analysis
