#include "analysis/theory/rope_intrinsic_bias.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "analysis/intervals/intervals.h"
#include "analysis/intervals/student_t.h"
#include "analysis/random.h"
#include "analysis/score_pairs.h"
#include "analysis/statistics.h"
#include "analysis/tensors.h"
#include "analysis/theory/equality.h"
#include "analysis/worst.h"
#include "model/host_memory.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kRopeIntrinsicBiasPairs = 20000;  // a head
constexpr std::int64_t kRopeIntrinsicBiasDistances = 12;
constexpr std::int64_t kFewestTexts = 8;  // below, standard errors by text mean nothing

// float32 scores by two ways of rounding: 1e-4 of their size, and half a unit in the last place of
// the angles of the last token, of so many radians.
double rounding_of_scores(std::int64_t tokens) {
  return std::max(1e-4, 0x1p-24 * static_cast<double>(tokens));
}

PlaneMeans pooled_over_distances(const BiasText& text) {
  const std::size_t planes = text.planes[0].mu.size();
  PlaneMeans sum{std::vector<double>(planes), std::vector<double>(planes)};
  const auto count = static_cast<double>(text.planes.size());
  for (const PlaneMeans& at : text.planes) {
    for (std::size_t d = 0; d < planes; ++d) {
      sum.mu[d] += at.mu[d] / count;
      sum.nu[d] += at.nu[d] / count;
    }
  }
  return sum;
}

PlaneMeans mean_of_texts(const std::vector<PlaneMeans>& texts) {
  BiasText all;
  all.planes = texts;
  return pooled_over_distances(all);
}

// Share of a quantity's size that float32 rounding may move systematically.
constexpr double kRopeIntrinsicBiasRounding = 1e-5;

// What |mean| exceeds the rounding of quantities of this size by, over its standard error.
double z_of(const std::vector<double>& values, double size) {
  const double excess = std::abs(moments_of(values).mean) - kRopeIntrinsicBiasRounding * size;
  if (std::isnan(excess)) return excess;
  const double error = sample_deviation(values) / std::sqrt(static_cast<double>(values.size()));
  return excess > 0 ? excess / error : 0;
}

double largest_abs(const std::vector<double>& values) {
  double largest = 0;
  for (const double x : values) largest = worst_of(largest, std::abs(x));
  return largest;
}

// Spread of the planes' means about their mean, plane by plane, over texts.
double planes_z_of(const std::vector<PlaneMeans>& pooled) {
  double worst = 0;
  const std::size_t planes = pooled[0].mu.size();
  const double size = std::max(largest_abs(pooled[0].mu), largest_abs(pooled[0].nu));
  for (std::size_t d = 0; d < planes; ++d) {
    std::vector<double> mu, nu;
    for (const PlaneMeans& text : pooled) {
      mu.push_back(text.mu[d] - text.mean_mu());
      nu.push_back(text.nu[d] - text.mean_nu());
    }
    worst = worst_of(worst, worst_of(z_of(mu, size), z_of(nu, size)));
  }
  return worst;
}

}  // namespace

BiasJudgement judge_bias(const BiasSample& sample, std::span<const double> frequencies,
                         const BiasFormulas& formulas) {
  BiasJudgement out;
  std::vector<PlaneMeans> pooled;
  for (const BiasText& text : sample.texts) pooled.push_back(pooled_over_distances(text));
  const PlaneMeans means = mean_of_texts(pooled);
  out.gamma = formulas.gamma(means, frequencies, sample.distances);
  out.per_plane = formulas.per_plane(means, frequencies, sample.distances);
  double largest = 0;
  const Draws draws;
  for (std::size_t at = 0; at < sample.distances.size(); ++at) {
    const std::span<const double> here(&sample.distances[at], 1);
    std::vector<PlaneMeans> planes;
    std::vector<double> scores, from_gamma, from_planes;
    for (std::size_t t = 0; t < sample.texts.size(); ++t) {
      const BiasText& text = sample.texts[t];
      planes.push_back(text.planes[at]);
      scores.push_back(text.score[at]);
      from_gamma.push_back(text.score[at] - formulas.gamma(pooled[t], frequencies, here)[0]);
      from_planes.push_back(text.score[at] - formulas.per_plane(pooled[t], frequencies, here)[0]);
    }
    out.measured.push_back(moments_of(scores).mean);
    const Interval band = mean_interval(scores, draws);
    out.low.push_back(band.low.value_or(std::nan("")));
    out.high.push_back(band.high.value_or(std::nan("")));
    const double same_pairs = formulas.per_plane(mean_of_texts(planes), frequencies, here)[0];
    out.identity = worst_of(out.identity, std::abs(out.measured.back() - same_pairs));
    const double size = largest_abs(scores);
    largest = worst_of(largest, size);
    out.gamma_z = worst_of(out.gamma_z, z_of(from_gamma, size));
    out.per_plane_z = worst_of(out.per_plane_z, z_of(from_planes, size));
  }
  // Means that cancel over texts are no more exact than what they are means of.
  out.identity /= worst_of(worst_of(largest_abs(out.measured), 0.1 * largest), 1e-30);
  out.distance_z = out.per_plane_z;
  out.planes_z = planes_z_of(pooled);
  return out;
}

namespace {

// What was measured with its band over texts, and both predictions.
void add_curves(const BiasJudgement& head, const std::vector<double>& distances,
                const std::string& name, CheckResult& result) {
  for (const auto& [label, y] :
       {std::pair{"measured mean score", &head.measured}, std::pair{"sqrt(D) Gamma", &head.gamma},
        std::pair{"one mean a plane", &head.per_plane}, std::pair{"95 % band, low", &head.low},
        std::pair{"95 % band, high", &head.high}}) {
    result.curves.push_back(
        curve_of(std::string(label) + ", " + name, {"distance", "score", true}, distances, *y));
  }
}

}  // namespace

CheckResult judge_heads(const std::vector<BiasJudgement>& heads,
                        const std::vector<double>& distances, std::int64_t texts,
                        std::int64_t planes, double identity_bound, const ShownHead& shown) {
  const auto comparisons = static_cast<double>(heads.size() * distances.size());
  const auto degrees = static_cast<double>(texts - 1);
  // P(|Z| > 3) = 0.0027 for all comparisons together, with the tails that few texts have.
  const auto bound_for = [degrees](double m) {
    return student_t_quantile(1 - 0.00135 / m, degrees);
  };
  const double bound = bound_for(comparisons);
  const double planes_bound =
      bound_for(static_cast<double>(heads.size()) * 2 * static_cast<double>(planes));
  double identity = 0, worst_met = 0, worst_distance = 0, worst_planes = 0, worst_gamma = 0;
  std::int64_t met = 0, distance_met = 0;
  for (const BiasJudgement& head : heads) {
    identity = worst_of(identity, head.identity);
    const bool by_distance = head.distance_z < bound, by_plane = head.planes_z < planes_bound;
    distance_met += by_distance;
    worst_distance = worst_of(worst_distance, head.distance_z);
    worst_planes = worst_of(worst_planes, head.planes_z);
    worst_gamma = worst_of(worst_gamma, head.gamma_z);
    if (!by_distance || !by_plane) continue;
    ++met;
    worst_met = worst_of(worst_met, head.gamma_z);
  }
  CheckResult result;
  result.bound = bound;
  result.noise = 1;  // z counts standard errors
  result.detail = "the rotated means of the same pairs give the measured mean to " +
                  short_number(identity) + " of its size; ";
  const std::string all = std::to_string(heads.size());
  if (!(identity <= identity_bound)) {
    result.verdict = name_of(Verdict::fails);
    result.value = identity, result.bound = identity_bound;
  } else if (met == 0) {
    result.verdict = name_of(Verdict::premise_not_met);
    result.value = worst_gamma;
    result.detail += "premise not met in any of " + all + " heads: means depend on distance in " +
                     std::to_string(static_cast<std::int64_t>(heads.size()) - distance_met) +
                     " (z up to " + short_number(worst_distance) +
                     "), planes have unequal means (z up to " + short_number(worst_planes) +
                     "); sqrt(D) Gamma is off the measured mean by up to " +
                     short_number(worst_gamma) + " standard errors";
  } else {
    result.verdict = name_of(worst_met < bound ? Verdict::holds : Verdict::fails);
    result.value = worst_met;
    result.detail += "premises met in " + std::to_string(met) + " of " + all +
                     " heads; there sqrt(D) Gamma is off the measured mean by up to " +
                     short_number(worst_met) + " standard errors";
  }
  if (shown.index < heads.size()) add_curves(heads[shown.index], distances, shown.name, result);
  return result;
}

namespace {

// Distances 1 .. tokens - 2, spread evenly in the logarithm, without repetitions.
std::vector<double> sampled_distances(std::int64_t tokens) {
  std::set<double> distances;
  for (const double d : log_distances(static_cast<double>(std::max<std::int64_t>(2, tokens - 2)),
                                      kRopeIntrinsicBiasDistances)) {
    if (d >= 1) distances.insert(std::round(d));
  }
  return {distances.begin(), distances.end()};
}

// Samples of every head that a model has, in the order of layers.
class BiasSampler {
 public:
  BiasSampler(const CheckContext& context, std::vector<double> distances, Rotation rotation)
      : context_(context),
        grid_(context.model->config()),
        distances_(std::move(distances)),
        rotation_(std::move(rotation)) {
    samples_.resize(grid_.present().size());
    for (BiasSample& sample : samples_) sample.distances = distances_;
  }

  std::vector<BiasSample> run(std::int64_t pairs_a_distance) {
    const auto count = static_cast<double>(context_.texts->items.size());
    for (std::size_t t = 0; t < context_.texts->items.size(); ++t) {
      context_.progress->throw_if_cancelled();
      context_.progress->progress(static_cast<double>(t) / count, "sampling pairs");
      TextPass pass(context_.model, ids_tensor(context_.texts->items[t].ids),
                    asked_options(context_));
      draw(pass.tokens(), pairs_a_distance, t);
      if (!pairs_) continue;
      pass.visit_layers_with_maps(
          [this](const AttentionPointer& attention) { read_layer(*attention); });
    }
    return std::move(samples_);
  }

 private:
  // The same number of pairs at each distance: queries uniform among those that have such a key.
  void draw(std::int64_t tokens, std::int64_t pairs, std::size_t text) {
    pairs_.reset();
    if (static_cast<double>(tokens) <= distances_.back() + 1) return;
    Random random(context_.seed * 7919 + text);
    per_distance_ = pairs;
    std::vector<std::int64_t> queries, keys;
    for (const double d : distances_) {
      const auto distance = static_cast<std::int64_t>(d);
      for (std::int64_t n = 0; n < pairs; ++n) {
        const std::int64_t query = random.between(distance, tokens);
        queries.push_back(query);
        keys.push_back(query - distance);
      }
    }
    pairs_.emplace(pairs_of_tokens(queries, keys), context_.model->decoder.device());
  }

  void read_layer(const model::LayerAttention& attention) {
    const at::NoGradGuard no_gradients;
    const std::int64_t group = attention.heads() / attention.kv_heads();
    const at::Tensor &rows = pairs_->here().query, &columns = pairs_->here().key;
    for (std::int64_t head = 0; head < attention.heads(); ++head) {
      const at::Tensor q =
          model::on_host(attention.q()[0][head]).index_select(0, rows).to(at::kDouble);
      const at::Tensor k =
          model::on_host(attention.k()[0][head / group]).index_select(0, columns).to(at::kDouble);
      const PlaneProducts products = plane_products(q, k, rotation_.layout);
      const auto scores = to_vector<double>(attention.pair_scores(pairs_->of_head(head)).score);
      const std::size_t at = grid_.index_of({attention.layer(), head});
      samples_[at].texts.push_back(text_of(scores, products));
    }
  }

  BiasText text_of(const std::vector<double>& scores, const PlaneProducts& products) const {
    const auto count = static_cast<std::int64_t>(distances_.size());
    const at::Tensor a = products.a.view({count, per_distance_, -1}).mean(1) * rotation_.gain;
    const at::Tensor b = products.b.view({count, per_distance_, -1}).mean(1) * rotation_.gain;
    BiasText text;
    for (std::int64_t n = 0; n < count; ++n) {
      double sum = 0;
      for (std::int64_t p = 0; p < per_distance_; ++p) {
        sum += scores[static_cast<std::size_t>(n * per_distance_ + p)];
      }
      text.score.push_back(sum / static_cast<double>(per_distance_));
      text.planes.push_back({to_vector<double>(a[n]), to_vector<double>(b[n])});
    }
    return text;
  }

  const CheckContext& context_;
  HeadGrid grid_;
  std::vector<double> distances_;
  Rotation rotation_;
  std::optional<model::TokenPairs> pairs_;  // of the text at hand; none where it is too short
  std::int64_t per_distance_ = 0;
  std::vector<BiasSample> samples_;
};

// What leaves a model without a rotation that the formula is of.
std::string missing_premise(const model::Model& model) {
  const model::AttentionConfig& attention = model.config().attention;
  const model::Encoding& encoding = model.encoding();
  if (!encoding.has_state()) return "q and k rotated by fixed angles; this encoding does not";
  if (model.config().encoding.key == "tape") {
    return "q and k rotated by fixed angles; here layers update the positions";
  }
  const model::StartContext two_tokens = start_context(model.decoder, 2, at::kDouble);
  if (encoding.start(two_tokens).table.defined()) {
    return "q and k rotated by fixed angles and nothing else; here the layers share more than "
           "angles: a decay, or a change of basis";
  }
  if ((attention.window > 0 || attention.chunk > 0) && !attention.local_layers.empty()) {
    return "scores at all distances; here some layers have a window";
  }
  if (attention.soft_cap > 0) return "scores without a soft cap; here they have one";
  if (attention.qk_norm_after) {
    return "scores of q and k as rotated; here they are normed behind it";
  }
  if (attention.scale_by_layer || attention.layer_gain || attention.log_scale > 0 ||
      attention.temperature != 0) {
    return "scores of q.k / sqrt(D); here their scale depends on the layer or the token";
  }
  return "q and k rotated whole by the same fixed angles in every layer, scores of q.k / sqrt(D); "
         "here only a part of each head is rotated, the angles differ or the scale is another one";
}

PlaneMeans means_of_sample(const BiasSample& sample) {
  std::vector<PlaneMeans> pooled;
  for (const BiasText& text : sample.texts) pooled.push_back(pooled_over_distances(text));
  return mean_of_texts(pooled);
}

// Both predictions past the texts, up to 10^7.
void add_far_curve(const PlaneMeans& means, const std::vector<double>& frequencies,
                   const std::string& name, CheckResult& result) {
  constexpr double kFar = 1e7;
  constexpr std::int64_t kPoints = 400;
  const std::vector<double> distances = log_distances(kFar, kPoints);
  const Axes axes{"distance, past the texts", "predicted score", true};
  result.curves.push_back(curve_of("sqrt(D) Gamma, " + name, axes, distances,
                                   sqrt_d_gamma(means, frequencies, distances)));
  result.curves.push_back(curve_of("one mean a plane, " + name, axes, distances,
                                   per_plane_bias(means, frequencies, distances)));
}

CheckResult run_rope_intrinsic_bias(const CheckContext& context) {
  const LayerHead head = shown_head(context);
  const ShownHead shown{HeadGrid(context.model->config()).index_of(head), name_of(head)};
  TextPass first(context.model, first_ids(context, 64), asked_options(context));
  const std::optional<Rotation> rotation = rotation_of_all(first);
  first.run();
  if (!rotation) {
    return not_measured(Verdict::premise_not_met, "premise: " + missing_premise(*context.model));
  }
  const auto texts = static_cast<std::int64_t>(context.texts->items.size());
  if (texts < kFewestTexts || context.texts->longest() < 8) {
    return not_measured(Verdict::undecided,
                        "needs at least " + std::to_string(kFewestTexts) +
                            " texts of 8 tokens or more for an error clustered by "
                            "text, but got " +
                            std::to_string(texts));
  }
  const std::vector<double> distances = sampled_distances(context.texts->longest());
  const std::int64_t pairs = context.pairs > 0 ? context.pairs : kRopeIntrinsicBiasPairs;
  const std::int64_t share =
      std::max<std::int64_t>(1, pairs / (texts * static_cast<std::int64_t>(distances.size())));
  std::vector<BiasJudgement> heads;
  PlaneMeans means;  // of the head shown
  std::int64_t used = 0;
  for (const BiasSample& sample : BiasSampler(context, distances, *rotation).run(share)) {
    used = static_cast<std::int64_t>(sample.texts.size());
    if (used < kFewestTexts) {
      return not_measured(Verdict::undecided,
                          "only " + std::to_string(used) + " texts reach the largest distance");
    }
    if (heads.size() == shown.index) means = means_of_sample(sample);
    heads.push_back(judge_bias(sample, rotation->frequencies));
  }
  CheckResult result =
      judge_heads(heads, distances, used, static_cast<std::int64_t>(rotation->frequencies.size()),
                  rounding_of_scores(context.texts->longest()), shown);
  add_far_curve(means, rotation->frequencies, shown.name, result);
  result.samples = used * share * static_cast<std::int64_t>(distances.size());
  result.detail += "; " + std::to_string(used) + " texts";
  if (used < texts) {
    result.detail +=
        " (" + std::to_string(texts - used) + " are too short for the largest distance)";
  }
  return result;
}

}  // namespace

TheoryCheck rope_intrinsic_bias() {
  return {
      {"rope.intrinsic_bias",
       "The mean score at distance lambda is sqrt(D) Gamma(lambda) = (1/sqrt D)(mu_0 sum "
       "cos(lambda theta_d) + nu_0 sum sin(lambda theta_d)), where the means mu, nu of the "
       "un-rotated products are the same for all distances and planes.",
       "arXiv 2509.12635, Definition 2.1", "The mean score is the rotation of the mean content",
       "a RoPE model and 8 texts or more",
       "fails where the rotated means of the same pairs are not the measured mean; else, of heads "
       "whose means depend neither on distance nor on plane, holds where sqrt(D) Gamma is within "
       "what 3 standard errors (clustered by text) of one comparison are for all; premise not "
       "met where there is no such head"},
      &run_rope_intrinsic_bias,
      On::model,
      {.pairs = true, .head = true}};
}

}  // namespace phasescope::analysis
