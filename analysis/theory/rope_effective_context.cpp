#include "analysis/theory/rope_effective_context.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <functional>
#include <numbers>

#include "analysis/intervals/draws.h"
#include "analysis/intrinsic_bias.h"
#include "analysis/theory/equality.h"
#include "analysis/theory/matrix_product.h"
#include "analysis/theory/rope_sums.h"
#include "analysis/worst.h"
#include "formats/error.h"

namespace phasescope::analysis {
namespace {

constexpr std::int64_t kRows = 8192;  // distances at once
constexpr std::int64_t kFewestDistances = 1024, kMostDistances = 2'000'000;
constexpr double kFactor = 4;  // of the identity's linear scaling
constexpr double kRopeEffectiveContextIdentity = 1e-12;
constexpr std::size_t kRopeEffectiveContextTexts = 16;
constexpr int kResamples = 99;     // of the interval
constexpr double kNoTurn = 1e-12;  // radians: below, a plane stands still

// Sums over l = 0 .. n of cos(l theta) and sin(l theta).
CosSin geometric_sums(double theta, double n) {
  if (std::abs(std::sin(theta / 2)) < kNoTurn) return {n + 1, 0};
  const double below = 2 * std::sin(theta / 2);
  return {std::sin((n + 0.5) * theta) / below + 0.5,
          (std::cos(theta / 2) - std::cos((n + 0.5) * theta)) / below};
}

// Octave means of each plane's cosine and sine at the distances given: (count, 2 planes).
std::vector<double> octave_rows(const std::vector<double>& frequencies,
                                const std::vector<std::int64_t>& distances) {
  std::vector<double> rows;
  const std::size_t planes = frequencies.size();
  rows.resize(distances.size() * 2 * planes);
  for (std::size_t n = 0; n < distances.size(); ++n) {
    const std::int64_t l = distances[n], half = l / 2;
    const auto count = static_cast<double>(l - half);
    for (std::size_t d = 0; d < planes; ++d) {
      const CosSin whole = geometric_sums(frequencies[d], static_cast<double>(l));
      const CosSin near = geometric_sums(frequencies[d], static_cast<double>(half));
      rows[n * 2 * planes + d] = (whole.c - near.c) / count;
      rows[n * 2 * planes + planes + d] = (whole.s - near.s) / count;
    }
  }
  return rows;
}

double root_dim(const std::vector<double>& frequencies) {
  return std::sqrt(2 * static_cast<double>(frequencies.size()));
}

// mu then nu of each head down a column, with the sign of the curve at 0: (2 planes, heads).
std::vector<double> head_columns(const std::vector<BiasHead>& heads,
                                 const std::vector<double>& frequencies,
                                 std::vector<EffectiveContext>& out) {
  const std::size_t planes = frequencies.size();
  std::vector<double> columns(2 * planes * heads.size());
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const double at_zero = bias_curve(heads[h], frequencies, 0);
    const double sign = at_zero < 0 ? -1 : 1;
    out.emplace_back().at_zero = std::abs(at_zero);
    for (std::size_t d = 0; d < planes; ++d) {
      const double scale = sign / root_dim(frequencies);
      columns[d * heads.size() + h] = scale * heads[h].mu[d];
      columns[(planes + d) * heads.size() + h] = scale * heads[h].nu[d];
    }
  }
  return columns;
}

// Reads the values of some distances, one row each; true where every head is done.
bool read_rows(const std::vector<double>& values, const std::vector<std::int64_t>& distances,
               std::vector<EffectiveContext>& out) {
  for (std::size_t n = 0; n < distances.size(); ++n) {
    for (std::size_t h = 0; h < out.size(); ++h) {
      const double value = values[n * out.size() + h];
      if (!out[h].half && value < out[h].at_zero / 2) out[h].half = distances[n];
      if (!out[h].zero && value < 0) out[h].zero = distances[n];
    }
  }
  return std::ranges::all_of(out, [](const EffectiveContext& one) { return one.half && one.zero; });
}

std::vector<EffectiveContext> over(const std::vector<BiasHead>& heads,
                                   const std::vector<double>& frequencies,
                                   const std::vector<std::int64_t>& distances,
                                   protocol::Progress* progress) {
  std::vector<EffectiveContext> out;
  const std::vector<double> columns = head_columns(heads, frequencies, out);
  for (std::size_t begin = 0; begin < distances.size(); begin += kRows) {
    progress->throw_if_cancelled();
    const std::size_t end = std::min(distances.size(), begin + kRows);
    const std::vector<std::int64_t> part(distances.begin() + static_cast<std::ptrdiff_t>(begin),
                                         distances.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<double> values = matrix_product(
        octave_rows(frequencies, part), columns, static_cast<std::int64_t>(part.size()),
        2 * static_cast<std::int64_t>(frequencies.size()), static_cast<std::int64_t>(heads.size()));
    if (read_rows(values, part, out)) break;
  }
  return out;
}

// ---- A model ------------------------------------------------------------------------------------

struct ModelHeads {
  std::vector<std::vector<BiasHead>> texts;  // [text][head]
};

ModelHeads heads_of_model(const CheckContext& context, const Rotation& rotation) {
  ModelHeads out;
  for (const Text& text : context.texts->items) {
    if (out.texts.size() == kRopeEffectiveContextTexts) break;
    context.progress->throw_if_cancelled();
    std::vector<BiasHead>& heads = out.texts.emplace_back();
    TextPass pass(context.model, ids_tensor(text.ids), asked_options(context));
    pass.visit_layers_with_maps([&](const AttentionPointer& attention) {
      for (PlaneMeans& means : causal_plane_means(*attention, rotation.layout)) {
        for (double& x : means.mu) x *= rotation.gain;
        for (double& x : means.nu) x *= rotation.gain;
        heads.push_back({std::move(means.mu), std::move(means.nu)});
      }
    });
  }
  return out;
}

// Heads with each text counted as often as `counts` says.
std::vector<BiasHead> weighted_heads(const ModelHeads& of, const std::vector<double>& counts) {
  double total = 0;
  for (const double c : counts) total += c;
  std::vector<BiasHead> out = of.texts[0];
  for (std::size_t h = 0; h < out.size(); ++h) {
    for (auto part : {&BiasHead::mu, &BiasHead::nu}) {
      for (std::size_t d = 0; d < (out[h].*part).size(); ++d) {
        double sum = 0;
        for (std::size_t t = 0; t < of.texts.size(); ++t) {
          sum += counts[t] * (of.texts[t][h].*part)[d];
        }
        (out[h].*part)[d] = sum / total;
      }
    }
  }
  return out;
}

// Distances 2 .. last, a quarter per cent apart: enough for the ends of an interval.
std::vector<std::int64_t> growing_distances(std::int64_t last) {
  std::vector<std::int64_t> out;
  for (double l = 2; l <= static_cast<double>(last); l = std::max(l + 1, l * 1.0025)) {
    out.push_back(static_cast<std::int64_t>(l));
  }
  return out;
}

// The range of kResamples draws; those that have no value cross nothing up to `last`.
std::string range_text(std::vector<double> values, std::int64_t last) {
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(kResamples - 1));
    return index < values.size() ? short_number(values[index]) : "beyond " + std::to_string(last);
  };
  return " [" + at(0.025) + ", " + at(0.975) + "]";
}

std::string number_or_none(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "none";
}

// The first head's interval by bootstrap over texts.
std::string interval_text(const ModelHeads& heads, const std::vector<double>& frequencies,
                          std::int64_t last, const CheckContext& context) {
  const std::size_t texts = heads.texts.size();
  if (texts < 2) return "no interval of one text";
  const Draws draws(context.seed);
  const auto counts = draws.of(texts);
  ModelHeads first;
  for (const std::vector<BiasHead>& text : heads.texts) first.texts.push_back({text[0]});
  std::vector<BiasHead> resampled;
  for (std::size_t n = 0; n < kResamples; ++n) {
    std::vector<double> weights;
    for (std::size_t t = 0; t < texts; ++t) weights.push_back((*counts)[n * texts + t]);
    resampled.push_back(weighted_heads(first, weights)[0]);
  }
  std::vector<double> half, zero;
  for (const EffectiveContext& got :
       over(resampled, frequencies, growing_distances(last), context.progress)) {
    if (got.half) half.push_back(static_cast<double>(*got.half));
    if (got.zero) zero.push_back(static_cast<double>(*got.zero));
  }
  return "half" + range_text(half, last) + ", zero" + range_text(zero, last) + " (bootstrap of " +
         std::to_string(texts) + " texts)";
}

CheckCurve curve_of_head(const BiasHead& head, const std::vector<double>& frequencies,
                         std::int64_t last, const std::string& name) {
  CheckCurve curve = curve_of("octave mean, " + name, {"distance", "score", true, false}, {}, {});
  const std::vector<std::int64_t> distances = growing_distances(last);
  std::vector<EffectiveContext> ignored;
  const std::vector<double> columns = head_columns({head}, frequencies, ignored);
  curve.y = matrix_product(octave_rows(frequencies, distances), columns,
                           static_cast<std::int64_t>(distances.size()),
                           2 * static_cast<std::int64_t>(frequencies.size()), 1);
  for (const std::int64_t l : distances) curve.x.push_back(static_cast<double>(l));
  return curve;
}

// The model under linear scaling; null where it has another one, or takes none.
std::shared_ptr<const model::Model> scaled_model(const CheckContext& context) {
  if (context.model->config().encoding.key != "rope" ||
      context.model->encoding().options().value("scaling", "none") != std::string("none")) {
    return nullptr;
  }
  try {
    return model::with_overrides(
        context.model, {{"rope.scaling", "linear"}, {"rope.factor", std::to_string(kFactor)}});
  } catch (const formats::Error& error) {
    if (error.code() != "bad_input") throw;
    return nullptr;  // its sines are stored
  }
}

// The model's own frequencies under linear scaling: what its encoding makes of it.
std::vector<double> scaled_frequencies(const CheckContext& context) {
  const auto scaled = scaled_model(context);
  if (scaled == nullptr) return {};
  TextPass pass(scaled, first_ids(context, 64), asked_options(context));
  const std::optional<Rotation> rotation = rotation_of_all(pass);
  return rotation ? rotation->frequencies : std::vector<double>();
}

CheckResult run_rope_effective_context(const CheckContext& context) {
  TextPass first(context.model, first_ids(context, 64), asked_options(context));
  const std::optional<Rotation> rotation = rotation_of_all(first);
  if (!rotation) {
    return not_measured(Verdict::premise_not_met,
                        "premise: q and k rotated whole by fixed angles; this model does not");
  }
  const std::vector<double>& angles = rotation->frequencies;
  const double slowest = 2 * std::numbers::pi / std::abs(*std::ranges::min_element(angles));
  const std::int64_t last = distances_searched(angles);
  const ModelHeads heads = heads_of_model(context, *rotation);
  const std::vector<BiasHead> means =
      weighted_heads(heads, std::vector<double>(heads.texts.size(), 1));
  const std::vector<EffectiveContext> got =
      effective_contexts(means, angles, last, context.progress);
  const std::string name = name_of(HeadGrid(context.model->config()).present().front());
  CheckCurve half =
      curve_of("half gone", {"head, layer after layer", "distance (tokens)", false, true}, {}, {});
  CheckCurve zero =
      curve_of("gone", {"head, layer after layer", "distance (tokens)", false, true}, {}, {});
  for (std::size_t h = 0; h < got.size(); ++h) {
    if (got[h].half) half.x.push_back(double(h)), half.y.push_back(double(*got[h].half));
    if (got[h].zero) zero.x.push_back(double(h)), zero.y.push_back(double(*got[h].zero));
  }
  std::string detail = "slowest wavelength " + short_number(slowest) + " tokens; " + name +
                       ": half of the bias is gone at " + number_or_none(got[0].half) +
                       ", all of it at " + number_or_none(got[0].zero) + " (searched to " +
                       std::to_string(last) + "); " + interval_text(heads, angles, last, context) +
                       "; " + std::to_string(zero.x.size()) + " of " + std::to_string(got.size()) +
                       " heads cross 0";
  const std::vector<double> scaled = scaled_frequencies(context);
  CheckResult result;
  if (scaled.size() != angles.size()) {
    result =
        answer(Verdict::undecided, {0, kRopeEffectiveContextIdentity, 0, std::int64_t(got.size())},
               detail +
                   "; numbers without verdict: the identity of linear scaling is tried on "
                   "RoPE that has none and takes one");
  } else {
    double worst = 0;
    for (const BiasHead& head : means) {
      worst = worst_of(worst, scaling_residual(head, angles, scaled, kFactor));
    }
    result = answer_below({worst, kRopeEffectiveContextIdentity, 0, std::int64_t(got.size())},
                          "linear scaling by 4 moves the curves by 4 to " + short_number(worst) +
                              "; numbers without verdict: " + detail);
  }
  result.curves = {std::move(half), std::move(zero), curve_of_head(means[0], angles, last, name)};
  return result;
}

}  // namespace

std::int64_t distances_searched(const std::vector<double>& frequencies) {
  const double scale = regimes_of(frequencies).ultra_from / (2 * std::numbers::pi);
  if (!(4 * scale > kFewestDistances)) return kFewestDistances;  // a NaN where planes stand still
  return std::llround(std::min(4 * scale, double{kMostDistances}));
}

double bias_curve(const BiasHead& head, const std::vector<double>& frequencies, double lambda) {
  double sum = 0;
  for (std::size_t d = 0; d < frequencies.size(); ++d) {
    sum += head.mu[d] * std::cos(lambda * frequencies[d]) +
           head.nu[d] * std::sin(lambda * frequencies[d]);
  }
  return sum / root_dim(frequencies);
}

std::vector<EffectiveContext> effective_contexts(const std::vector<BiasHead>& heads,
                                                 const std::vector<double>& frequencies,
                                                 std::int64_t last, protocol::Progress* progress) {
  std::vector<std::int64_t> distances;
  for (std::int64_t l = 2; l <= last; ++l) distances.push_back(l);
  return over(heads, frequencies, distances, progress);
}

double scaling_residual(const BiasHead& head, const std::vector<double>& frequencies,
                        const std::vector<double>& scaled, double factor) {
  double worst = 0, size = 0;
  for (std::size_t d = 0; d < frequencies.size(); ++d) {
    size += std::abs(head.mu[d]) + std::abs(head.nu[d]);
  }
  for (const double lambda : {1., 7., 100., 5000.}) {
    worst = worst_of(worst, std::abs(bias_curve(head, scaled, factor * lambda) -
                                     bias_curve(head, frequencies, lambda)));
  }
  return worst / std::max(size / root_dim(frequencies), 1e-300);
}

LimitRoots limit_roots(double rho) {
  const auto curve = [rho](double x) {
    return -cosine_integral(x) + rho * (std::numbers::pi / 2 - sine_integral(x));
  };
  // Its integral from 0.
  const auto integral = [rho](double u) {
    return -(u * cosine_integral(u) - std::sin(u)) +
           rho * (u * std::numbers::pi / 2 - u * sine_integral(u) - std::cos(u));
  };
  const auto octave = [&](double x) { return integral(x) - integral(x / 2); };
  // The first change of sign on a fine grid, then bisected.
  const auto first_root = [](const std::function<double(double)>& f) {
    double from = 1e-4;
    for (const double to : spread_in_log(1.005e-4, 50, 2600)) {
      if ((f(from) > 0) != (f(to) > 0)) {
        const auto [low, high] = boost::math::tools::bisect(
            f, from, to, [](double a, double b) { return b - a < 1e-14 * b; });
        return (low + high) / 2;
      }
      from = to;
    }
    return std::nan("");
  };
  return {first_root(curve), first_root(octave)};
}

TheoryCheck rope_effective_context() {
  return {{.id = "rope.effective_context",
           .statement = "The effective context does not exceed 1/theta_0 (2 pi base in a model's "
                        "distances). Where the octave mean of a head's curve falls below half of "
                        "its value at 0, and below 0; linear scaling by f moves both by f.",
           .source = "arXiv 2509.12635, after Theorem 2.3",
           .title = "Where the distance bias of a head is gone",
           .needs = "a RoPE model and a text",
           .rule = "numbers without verdict; the identity holds where the curve under linear "
                   "scaling by 4, as the model's encoding has it, is the curve moved by 4, to "
                   "1e-12"},
          &run_rope_effective_context,
          On::model};
}

}  // namespace phasescope::analysis
