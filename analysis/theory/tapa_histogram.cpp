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

constexpr std::int64_t kTapaHistogramPairs = 10000;
constexpr double kWidestInterval = 0.25;  // half-width of a decided interval around 0, in sigma

CheckCurve histogram_curve(const NearFar& histogram, const std::string& label) {
  CheckCurve curve{label, "score(near) - score(far)", "samples", false, false, {}, {}, {}};
  for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
    curve.x.push_back((histogram.edges[b] + histogram.edges[b + 1]) / 2);
    curve.y.push_back(static_cast<double>(histogram.counts[b]));
  }
  return curve;
}

bool above_zero(const Interval& interval) { return interval.low && *interval.low > 0; }
bool below_zero(const Interval& interval) { return interval.high && *interval.high < 0; }

// Whether near keys are as much preferred where they are no longer near.
bool stays_without_distances(const ShuffledDistances* shuffled) {
  return shuffled != nullptr && above_zero(shuffled->histogram.intervals.mean) &&
         !above_zero(shuffled->difference);
}

Verdict near_verdict(const Interval& mean, const ShuffledDistances* shuffled) {
  if (stays_without_distances(shuffled)) return Verdict::fails;
  if (above_zero(mean)) return Verdict::holds;
  return *mean.high > 0 ? Verdict::undecided : Verdict::fails;
}

Verdict verdict_of(const NearFar& histogram, const ShuffledDistances* shuffled, BiasClaim claim,
                   double half, std::int64_t fewest_texts) {
  if (claim == BiasClaim::no_claim) return Verdict::premise_not_met;
  const Interval& mean = histogram.intervals.mean;
  if (histogram.texts < fewest_texts || !mean.known()) return Verdict::undecided;
  if (claim == BiasClaim::near_favoured) return near_verdict(mean, shuffled);
  if (above_zero(mean) || below_zero(mean)) return Verdict::fails;
  return half <= kWidestInterval * histogram.sigma ? Verdict::holds : Verdict::undecided;
}

// What the control says, as the end of a sentence.
std::string control_text(const ShuffledDistances* shuffled) {
  if (shuffled == nullptr) {
    return "; layers update the positions, which cannot be shuffled for a control";
  }
  const Interval& mean = shuffled->histogram.intervals.mean;
  std::string text = "; with the positions shuffled " + interval_text(mean) +
                     ", so that the distances make " + interval_text(shuffled->difference);
  if (stays_without_distances(shuffled)) {
    text += " (near keys are preferred wherever they are placed: not by their distance)";
  } else if (above_zero(mean) || below_zero(mean)) {
    text += " (the rest is in what near and far keys hold)";
  }
  return text;
}

BiasClaim claim_of(TextPass& pass) {
  const auto attention = pass.layer(first_layer_with_maps(pass.model().config()));
  if (attention->program().is<model::TapaProgram>()) {
    return BiasClaim::none_left;
  }
  const model::Encoding& encoding = pass.model().encoding();
  const bool rotates =
      encoding.has_state() &&
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

CheckResult run_tapa_histogram(const CheckContext& context) {
  if (!is_causal_decoder(context.model->config())) {
    CheckResult result;
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail =
        "near and far are told among the keys before a query; this is no causal decoder";
    return result;
  }
  NearFarSpec spec =
      default_near_far(context.texts->longest(), context.texts->starts_with_bos ? 1 : 0);
  spec.pairs = context.pairs > 0 ? context.pairs : kTapaHistogramPairs;
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
  const NearFarSamples samples = sample_near_far(
      context.model, *context.texts, spec, context.backend, *context.progress, context.kernels);
  const Draws draws(context.seed);
  const NearFar histogram = near_far_of(spec, samples.measured, {}, draws);
  if (histogram.texts == 0) {
    CheckResult result;
    result.verdict = name_of(Verdict::premise_not_met);
    result.detail =
        "premise: near and far keys that a query sees; no query sees both of a sample, "
        "far being " +
        std::to_string(spec.far_begin) + " tokens away or more";
    return result;
  }
  std::optional<ShuffledDistances> shuffled;
  if (samples.shuffled) shuffled = shuffled_distances(spec, samples, draws);
  CheckResult result = judge_histogram(histogram, shuffled ? &*shuffled : nullptr, claim);
  result.detail += "; near [" + std::to_string(spec.near_begin) + ", " +
                   std::to_string(spec.near_end) + "), far [" + std::to_string(spec.far_begin) +
                   ", " + std::to_string(spec.far_end) + "), " + claim_text(claim);
  return result;
}

}  // namespace

ShuffledDistances shuffled_distances(const NearFarSpec& spec, const NearFarSamples& samples,
                                     const Draws& draws) {
  std::vector<Part> parts;
  for (std::size_t t = 0; t < samples.measured.values.size(); ++t) {
    const std::vector<double>& measured = samples.measured.values[t];
    Part& part = parts.emplace_back();
    part.weight = static_cast<double>(measured.size());
    for (std::size_t s = 0; s < measured.size(); ++s) {
      part.sum += measured[s] - samples.shuffled->values[t][s];
    }
  }
  return {near_far_of(spec, *samples.shuffled, {}, draws), ratio_interval(parts, draws)};
}

CheckResult judge_histogram(const NearFar& histogram, const ShuffledDistances* shuffled,
                            BiasClaim claim, std::int64_t fewest_texts) {
  CheckResult result;
  const Interval& mean = histogram.intervals.mean;
  const double half = mean.known() ? (*mean.high - *mean.low) / 2 : std::nan("");
  result.value = histogram.mean;
  result.bound = 0;
  result.noise = half;
  result.samples = histogram.pairs;
  result.verdict = name_of(verdict_of(histogram, shuffled, claim, half, fewest_texts));
  result.detail = "mean " + interval_text(mean) + " (" + words_of(mean) + "), sigma " +
                  short_number(histogram.sigma) + ", skewness " + short_number(histogram.skewness) +
                  ", " + short_number(100 * histogram.share_positive) + " % above 0" +
                  control_text(shuffled);
  if (result.verdict == name_of(Verdict::undecided)) {
    const double target = kWidestInterval * histogram.sigma;
    const double texts = static_cast<double>(histogram.texts) * std::pow(half / target, 2);
    const auto needed = std::isfinite(texts) ? static_cast<std::int64_t>(std::ceil(texts)) : 0;
    result.detail +=
        "; about " + std::to_string(std::max(fewest_texts, needed)) + " texts would decide";
  }
  result.curves = {histogram_curve(histogram, "measured")};
  if (shuffled != nullptr) {
    result.curves.push_back(histogram_curve(shuffled->histogram, "positions shuffled"));
  }
  return result;
}

TheoryCheck tapa_histogram() {
  return {{"tapa.histogram",
           "The mean of score(near key) - score(far key) is 0 under TAPA and above 0 under RoPE.",
           "arXiv 2509.12635, Appendix I, Figures 1 and 2", "Does the score favour near keys",
           "a causal model and 50 texts or more",
           "TAPA holds where the interval of the mean by text holds 0 and is narrower than half a "
           "sigma, RoPE where it lies above 0 and does not stay there with the positions shuffled"},
          &run_tapa_histogram,
          On::model,
          {.pairs = true}};
}

}  // namespace phasescope::analysis
