#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "app/figures/distance_axis.h"
#include "app/figures/eval_names.h"
#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/figures/job_figures.h"
#include "app/figures/point_shapes.h"
#include "app/figures/published.h"
#include "app/figures/task_figures.h"
#include "protocol/headings.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Scale;
using widgets::Series;
using widgets::SeriesKind;
using widgets::short_number;

namespace {

// "bits_per_byte" -> "bits per byte".
std::string in_words(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

// "1.86 at 256, 2.28 at 512; n 24 texts": what the figure of a model says, in numbers, which are
// named where its axis is of another metric.
std::string numbers_of(const protocol::EvalResult& result, const std::string& model,
                       const std::string& of_axis) {
  std::string text, method;
  std::int64_t least = 0, most = 0;
  for (const protocol::EvalRow& row : result.rows) {
    if (row.model != model) continue;
    const bool text_began = !text.empty();
    if (!text_began && row.metric != of_axis) text = in_words(row.metric) + " ";
    text += (text_began ? ", " : "") + with_ends(row.value, row.low, row.high) + " at " +
            std::to_string(row.length);
    least = text_began ? std::min(least, row.n) : row.n;
    most = std::max(most, row.n), method = row.method;
  }
  const std::string n = std::to_string(least) + (most > least ? " to " + std::to_string(most) : "");
  return text + "; n = " + n + " " + result.counted.value_or("texts") + ", interval: " + method;
}

// What of a result all models have alike; empty where they differ, or where there is none.
template <class T>
std::string common(const std::vector<T>& list, std::string T::*what) {
  if (list.empty()) return {};
  const bool same = std::ranges::count(list, list.front().*what, what) == std::ssize(list);
  return same ? list.front().*what : std::string();
}

// A model's name, with the metric where another model has another one.
template <class T>
std::string label_of(const T& of_model, const std::string& common_metric, const ModelNames& names) {
  const std::string name = names.short_name(of_model.model);
  if (!common_metric.empty() || of_model.metric.empty()) return name;
  return name + " (" + in_words(of_model.metric) + ")";
}

template <class T>
std::size_t place_of(const T& value, std::vector<T>& seen) {
  const auto place = std::ranges::find(seen, value) - seen.begin();
  if (place == std::ssize(seen)) seen.push_back(value);
  return std::size_t(place);
}

}  // namespace

void add_notes(std::vector<std::string>& notes, std::span<const protocol::Provenance> provenance,
               const ModelNames& names) {
  const bool shared =
      provenance.size() > 1 && std::ranges::all_of(provenance, [&](const auto& one) {
        return one.note == provenance.front().note;
      });
  if (shared && !provenance.front().note.empty()) {
    return notes.push_back("each model: " + provenance.front().note);
  }
  for (const protocol::Provenance& one : provenance) {
    if (one.note.empty()) continue;
    const bool named = !one.models.empty();
    notes.push_back((named ? names.short_name(one.models.front()) + ": " : "") + one.note);
  }
}

std::vector<std::string> notes_of_weights(std::string_view note) {
  std::vector<std::string> found;
  for (std::size_t begin = 0; begin < note.size();) {
    const std::size_t end = std::min(note.find("; ", begin), note.size());
    const std::string_view clause = note.substr(begin, end - begin);
    if (clause.starts_with("weights of ")) found.emplace_back(clause);
    begin = end + 2;
  }
  return found;
}

namespace {

// A point in the middle of each band, with its interval.
void add_bands(const std::vector<protocol::ProfileBand>& bands, Series& series) {
  for (const protocol::ProfileBand& band : bands) {
    series.x.push_back(on_log_axis(double(band.begin + band.end - 1) / 2));
    series.y.push_back(band.weight.mean);
    add_ends(series, band.weight.low, band.weight.high);
  }
}

}  // namespace

std::vector<PlotSpec> distance_profile_figures(const protocol::HeadsResult& result,
                                               const ModelNames& names) {
  std::map<std::int64_t, PlotSpec> by_layer;
  for (const protocol::HeadRow& row : result.rows) {
    if (!row.distance_profile) continue;
    const std::string layer = "L" + std::to_string(row.layer);
    PlotSpec& plot = by_layer[row.layer];
    plot.id = "distance_profile_" + names.file_name(result.model) + "_" + layer;
    plot.title =
        names.short_name(result.model) + " " + layer + ": weight by distance of every head";
    plot.x = distance_axis(), plot.y.label = "mean weight";
    const protocol::DistanceProfile& profile = *row.distance_profile;
    Series series{.label = "H" + std::to_string(row.head), .color = int(plot.series.size())};
    const bool banded = !profile.bands.empty() && profile.bands.front().weight.n > 1;
    if (banded) {
      plot.x = log_distance_axis();
      add_bands(profile.bands, series);
    } else {
      series.x.assign(profile.distance.begin(), profile.distance.end());
      series.y = profile.weight;
    }
    if (banded && plot.notes.empty()) {
      plot.notes.push_back(
          "means over bands of distances, four an octave from 17 on, with 95 % "
          "intervals; n = " +
          std::to_string(profile.bands.front().weight.n) + " texts");
    }
    plot.series.push_back(std::move(series));
  }
  std::vector<PlotSpec> figures;
  for (auto& [layer, plot] : by_layer) {
    if (!result.stack.empty()) plot.notes.push_back(stack_note(result.stack));
    figures.push_back(std::move(plot));
  }
  return figures;
}

PlotSpec token_loss_figure(std::span<const protocol::TextResult> texts, const ModelNames& names) {
  PlotSpec plot{.id = "token_loss", .title = "Loss by token"};
  plot.x.label = "position (token)", plot.x.of = widgets::Coordinate::position;
  plot.y.label = "loss (nats)";
  for (const protocol::TextResult& text : texts) {
    const std::string name = names.short_name(text.model);
    Series series{.label = name, .color = names.color(text.model), .width = 1.0};
    if (std::isfinite(text.loss)) series.label += ": mean " + short_number(text.loss) + " nats";
    for (std::size_t i = 0; i < text.tokens.size(); ++i) {
      if (!text.tokens[i].loss) continue;
      series.x.push_back(double(i));
      series.y.push_back(*text.tokens[i].loss);
    }
    plot.notes.push_back(name + ": " + std::to_string(series.y.size()) + " predicted tokens" +
                         (text.provenance.note.empty() ? "" : "; " + text.provenance.note));
    if (!series.y.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

PlotSpec position_loss_figure(const protocol::EvalResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "loss_by_position", .title = "Loss against position"};
  const std::string metric = common(result.positions, &protocol::PositionCurve::metric);
  plot.x.label = "position (token)", plot.x.of = widgets::Coordinate::position;
  plot.y.label = metric.empty() ? "bits" : in_words(metric);
  std::int64_t trained = 0;
  std::vector<std::string> read;
  for (const protocol::PositionCurve& curve : result.positions) {
    Series& series = plot.series.emplace_back();
    series.label = label_of(curve, metric, names);
    series.x = curve.position, series.y = curve.bits, series.color = names.color(curve.model);
    for (std::size_t i = 0; i < std::min(curve.low.size(), curve.high.size()); ++i) {
      add_ends(series, curve.low[i], curve.high[i]);
    }
    place_of(std::to_string(curve.texts) + " " + curve.source, read);
    if (curve.trained_length != trained) {
      trained = curve.trained_length;
      plot.markers.push_back({.at = double(trained), .label = "trained length"});
    }
  }
  std::string sources;
  for (const std::string& one : read) sources += (sources.empty() ? "" : " or ") + one;
  plot.notes.push_back("mean over " + sources +
                       ", band: 95 % interval by text; window rule: per_position");
  for (const protocol::PositionCurve& curve : result.positions) {
    plot.notes.push_back(names.short_name(curve.model) + ": " +
                         numbers_of(result, curve.model, curve.metric));
  }
  return plot;
}

PlotSpec eval_figure(const protocol::EvalResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "eval_" + result.task, .title = result.task + " against length"};
  if (result.metric != result.task) plot.title += ": " + in_words(result.metric);
  plot.x.label = protocol::with_unit("length", result.length_unit.value_or("tokens"));
  plot.x.scale = Scale::log10;
  plot.y.label = in_words(result.metric);
  const std::string metric = common(result.rows, &protocol::EvalRow::metric);
  std::map<std::string, std::size_t> index;
  std::map<std::int64_t, bool> lengths;
  std::string window;
  for (const protocol::EvalRow& row : result.rows) {
    const auto [found, added] = index.try_emplace(row.model, plot.series.size());
    if (added) {
      plot.series.push_back(
          {.label = label_of(row, metric, names), .color = names.color(row.model)});
      plot.notes.push_back(names.short_name(row.model) + ": " +
                           numbers_of(result, row.model, row.metric));
    }
    Series& series = plot.series[found->second];
    series.x.push_back(double(row.length));
    series.y.push_back(row.value);
    add_ends(series, row.low, row.high);
    lengths[row.length] = true;
    window = row.window;
  }
  for (const auto& [length, unused] : lengths) {
    plot.x.ticks.push_back({double(length), std::to_string(length)});
  }
  if (result.length_unit) {
    add_guessers(result, names, plot);
    if (add_published(plot, metric + " " + result.task, encodings_of(result))) {
      plot.notes.emplace_back(kPublishedTask);
      add_published_lengths(plot);
    }
    plot.notes.push_back("band: 95 % interval over " + result.counted.value_or("samples"));
    return plot;
  }
  plot.notes.push_back("window rule: " + window + "; band: 95 % interval by text");
  return plot;
}

PlotSpec eval_difference_figure(const protocol::EvalResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "eval_difference_" + result.task};
  plot.x = {.label = protocol::with_unit("length", result.length_unit.value_or("tokens")),
            .scale = Scale::log10};
  plot.markers.push_back({.at = 0, .vertical = false});
  std::map<std::string, std::size_t> index;
  std::map<std::int64_t, bool> lengths;
  for (const protocol::EvalDifference& one : result.differences) {
    if (one.against != result.differences.front().against) continue;  // of every pair of a sweep
    const std::string against = names.short_name(one.against);
    const std::string unit = one.difference.unit, paired = unit.substr(0, unit.size() - 1);
    plot.title =
        result.task + ": " + one.metric + " above that of " + against + ", paired by " + paired;
    plot.y.label = one.per.empty() ? one.metric : "nats a " + one.per;
    const auto [found, added] = index.try_emplace(one.model, plot.series.size());
    if (added) {
      plot.series.push_back({.label = names.short_name(one.model) + " - " + against,
                             .color = names.color(one.model),
                             .points = widgets::PointShape::circle});
      plot.notes.push_back(plot.series.back().label + ": interval by " + one.difference.method +
                           ", n = " + std::to_string(one.difference.n) + " " + unit);
    }
    Series& series = plot.series[found->second];
    series.x.push_back(double(one.length)), series.y.push_back(one.difference.mean);
    add_ends(series, one.difference.low, one.difference.high);
    lengths[one.length] = true;
  }
  for (const auto& [length, unused] : lengths) {
    plot.x.ticks.push_back({double(length), std::to_string(length)});
  }
  const std::string unit =
      result.differences.empty() ? "texts" : result.differences.front().difference.unit;
  plot.notes.push_back((unit == "seeds" ? "trainings of one seed read the same batches"
                                        : "both read the same " + unit) +
                       "; band: 95 % interval of the mean difference");
  return plot;
}

std::vector<GroupedFigure> figures_of(const protocol::EvalResult& result, const ModelNames& names) {
  std::vector<GroupedFigure> figures;
  if (!result.rows.empty()) {
    figures.push_back({"loss by length", -1, eval_figure(result, names)});
  }
  for (PlotSpec& map : task_maps(result, names)) figures.push_back({"map", -1, std::move(map)});
  if (!result.positions.empty()) {
    figures.push_back({"loss by position", -1, position_loss_figure(result, names)});
  }
  if (!result.differences.empty()) {
    figures.push_back({"paired difference", -1, eval_difference_figure(result, names)});
  }
  if (result.task == kPerplexity && result.metric == kPerplexity) {
    for (PlotSpec& published : published_perplexity_figures(encodings_of(result))) {
      figures.push_back({kPublishedGroup, -1, std::move(published)});
    }
  }
  return figures;
}

PlotSpec pe_by_distance_figure(const protocol::PatternsResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "pe_by_distance_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": PE dot product by distance"};
  plot.x = distance_axis(), plot.y.label = "mean PE dot product G";
  for (const protocol::PatternsLayer& layer : result.layers) {
    Series series{.label = layer.layer == 0 ? "start" : "after L" + std::to_string(layer.layer - 1),
                  .color = int(layer.layer)};
    series.y = layer.mean_by_distance;
    series.x.assign(result.distances.begin(), result.distances.end());
    plot.series.push_back(std::move(series));
  }
  plot.notes = {result.products, result.formula,
                "mean over all pairs of " + std::to_string(result.position_count) + " positions"};
  std::erase(plot.notes, "");
  return plot;
}

namespace {

using StatesByModel =
    std::vector<std::pair<std::string, const std::vector<protocol::PatternsLayer>*>>;

// Fixed positions have no drift to show, also where layers have different ones.
StatesByModel drifting_states(std::span<const protocol::PatternsResult> results) {
  StatesByModel models;
  const auto add = [&](const std::string& model,
                       const std::vector<protocol::PatternsLayer>& states) {
    const bool drifts = std::ranges::any_of(states, [](const auto& at) { return at.drift > 0; });
    const bool is_new =
        std::ranges::find(models, model, &StatesByModel::value_type::first) == models.end();
    if (drifts && is_new) models.emplace_back(model, &states);
  };
  for (const protocol::PatternsResult& result : results) add(result.model, result.layers);
  for (const protocol::PatternsResult& result : results) add(result.against, result.against_layers);
  return models;
}

}  // namespace

std::optional<PlotSpec> state_drift_figure(std::span<const protocol::PatternsResult> results,
                                           const ModelNames& names) {
  const StatesByModel models = drifting_states(results);
  if (models.empty()) return {};
  PlotSpec plot{.id = "state_drift", .title = "Drift of the position state with depth"};
  plot.x.label = "layers passed";
  plot.y.label = "|z| (mean) and drift";
  if (results.size() == 1) plot.id += "_" + names.file_name(results.front().model);
  std::string of_drift;  // what its interval is by
  for (const auto& [model, states] : models) {
    const std::string name = names.short_name(model);
    const int color = names.color(model);
    Series size{.label = name + " mean |z|", .color = color};
    Series drift{.label = name + " ||z - z0|| / ||z0||", .color = color, .dashed = true};
    if (models.size() > 1) size.points = drift.points = shape_at(static_cast<std::size_t>(color));
    const bool banded = std::ranges::any_of(
        *states, [](const auto& layer) { return layer.drift_interval.known(); });
    for (const protocol::PatternsLayer& layer : *states) {
      size.x.push_back(double(layer.layer));
      size.y.push_back(layer.mean_abs_z);
      size.low.push_back(layer.mean_abs_z - layer.sd_abs_z);
      size.high.push_back(layer.mean_abs_z + layer.sd_abs_z);
      drift.x.push_back(double(layer.layer));
      drift.y.push_back(layer.drift);
      if (banded) add_ends(drift, layer.drift_interval.low, layer.drift_interval.high);
      if (layer.drift_interval.known()) of_drift = words_of(layer.drift_interval);
    }
    plot.series.push_back(std::move(size));
    plot.series.push_back(std::move(drift));
  }
  plot.notes.push_back("band of |z|: one standard deviation over tokens, heads and planes");
  if (!of_drift.empty()) plot.notes.push_back("band of the drift: 95 % interval, " + of_drift);
  return plot;
}

PlotSpec bias_curves_figure(const protocol::PatternsResult& result, std::int64_t layer,
                            const ModelNames& names) {
  PlotSpec plot{.id = "bias_" + names.file_name(result.model) + "_L" + std::to_string(layer),
                .title = names.short_name(result.model) + " L" + std::to_string(layer) +
                         ": bias of every head"};
  plot.x = distance_axis(), plot.y.label = "bias added to the score";
  for (const protocol::BiasCurve& curve : result.bias) {
    if (curve.layer != layer) continue;
    Series series{
        .label = "H" + std::to_string(curve.head) + (curve.label.empty() ? "" : " " + curve.label),
        .color = int(plot.series.size())};
    series.y = curve.values;
    series.x.assign(result.bias_distances.begin(),
                    result.bias_distances.begin() + std::ptrdiff_t(curve.values.size()));
    plot.series.push_back(std::move(series));
  }
  if (!result.bias_note.empty()) plot.notes.push_back(result.bias_note);
  return plot;
}

PlotSpec frequencies_figure(const protocol::PatternsResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "frequencies_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": rotation frequencies"};
  plot.x.label = "plane";
  plot.y.label = "radians a token";
  plot.y.scale = Scale::log10;
  Series series{.label = names.short_name(result.model),
                .kind = SeriesKind::scatter,
                .color = names.color(result.model)};
  series.y = result.frequencies;
  for (std::size_t m = 0; m < series.y.size(); ++m) series.x.push_back(double(m));
  plot.series.push_back(std::move(series));
  return plot;
}

namespace {

// Bias curves of every layer that has some, in the order of the result.
std::vector<std::int64_t> layers_with_bias(const protocol::PatternsResult& result) {
  std::vector<std::int64_t> layers;
  for (const protocol::BiasCurve& curve : result.bias) place_of(curve.layer, layers);
  return layers;
}

}  // namespace

std::vector<GroupedFigure> figures_of(const protocol::PatternsResult& result,
                                      std::span<const protocol::TensorRef> tensors,
                                      const ModelNames& names) {
  std::vector<GroupedFigure> figures;
  const std::string_view prefix = "pe_dot.";
  std::vector<std::pair<std::int64_t, Grid>> grids;
  std::vector<float> all;  // whose scale every layer has, and the model that they stand against
  for (const protocol::TensorRef& tensor : tensors) {
    const bool own = tensor.name.starts_with(prefix);
    if (!own && !tensor.name.starts_with("against.")) continue;
    const Grid grid = grid_of(tensor);
    all.insert(all.end(), grid.values.begin(), grid.values.end());
    if (own) grids.emplace_back(std::stoll(tensor.name.substr(prefix.size())), grid);
  }
  for (const auto& [layer, grid] : grids) {
    figures.push_back({"dot products", layer,
                       pe_dot_figure(result, layer, grid, names, widgets::value_range(all))});
  }
  if (!result.layers.empty()) {
    figures.push_back({"by distance", -1, pe_by_distance_figure(result, names)});
  }
  if (auto drift = state_drift_figure({&result, 1}, names)) {
    figures.push_back({kDriftWithDepth, -1, std::move(*drift)});
  }
  for (const std::int64_t layer : layers_with_bias(result)) {
    figures.push_back({"bias curves", layer, bias_curves_figure(result, layer, names)});
  }
  if (!result.frequencies.empty()) {
    figures.push_back({"frequencies", -1, frequencies_figure(result, names)});
  }
  return figures;
}

namespace {

// A few sampled points of a curve are points: a line between them would claim what was not
// measured.
constexpr std::size_t kFewPoints = 24;
// As many as a legend can name above a plot that is still one.
constexpr std::size_t kCurvesAFigure = 12;

// Distances have the axes that they have in all figures.
bool is_of_distance(const protocol::CheckCurve& curve) { return curve.x_label == "distance"; }

std::vector<double> places_of(const protocol::CheckCurve& curve) {
  return is_of_distance(curve) && curve.log_x ? on_log_axis(curve.x) : curve.x;
}

Series series_of(const protocol::CheckCurve& curve, int color) {
  return {.label = curve.label.empty() ? "measured" : curve.label,
          .kind = curve.x.size() > kFewPoints ? SeriesKind::line : SeriesKind::scatter,
          .x = places_of(curve),
          .y = curve.y,
          .color = color};
}

bool same_axes(const protocol::CheckCurve& a, const protocol::CheckCurve& b) {
  return a.x_label == b.x_label && a.y_label == b.y_label && a.log_x == b.log_x &&
         a.log_y == b.log_y;
}

PlotSpec check_figure(const protocol::CheckResult& check, const protocol::CheckCurve& curve,
                      const ModelNames& names) {
  PlotSpec plot{.id = check.id + "_" + names.file_name(check.model),
                .title = check.id + " on " + names.short_name(check.model)};
  plot.x = {.label = curve.x_label, .scale = curve.log_x ? Scale::log10 : Scale::linear};
  if (is_of_distance(curve)) plot.x = curve.log_x ? log_distance_axis() : distance_axis();
  plot.y = {.label = curve.y_label, .scale = curve.log_y ? Scale::log10 : Scale::linear};
  const std::string numbers = measured_numbers(check);
  plot.notes.push_back("verdict " + check.verdict + (numbers.empty() ? "" : ": " + numbers));
  if (!check.source.empty()) plot.notes.push_back(check.source);
  return plot;
}

using CheckCurves = std::vector<const protocol::CheckCurve*>;

// What checks call the ends of the interval of what they measured: "95 % band, low, L0H0" and
// "95 % band, high, L0H0".
constexpr std::string_view kBandLow = "95 % band, low", kBandHigh = "95 % band, high";

// Takes the two ends of a band out of `curves`, the first of which is what was measured; both null
// where there are not two at its points.
std::pair<const protocol::CheckCurve*, const protocol::CheckCurve*> take_band(CheckCurves& curves) {
  const auto end_called = [&](std::string_view name) -> const protocol::CheckCurve* {
    const auto found = std::ranges::find_if(curves, [&](const auto* curve) {
      return curve->label.starts_with(name) && curve->x == curves[0]->x;
    });
    return found == curves.end() ? nullptr : *found;
  };
  const auto *low = end_called(kBandLow), *high = end_called(kBandHigh);
  if (low == nullptr || high == nullptr || low == curves[0] || high == curves[0]) return {};
  std::erase(curves, low), std::erase(curves, high);
  return {low, high};
}

// Curves with their bounds, each bound once: one that all share is "bound". What was measured with
// a band is a line through its points, as a band is drawn along one.
void add_curves(PlotSpec& plot, CheckCurves curves) {
  const auto [low, high] = take_band(curves);
  for (const protocol::CheckCurve* curve : curves) {
    plot.series.push_back(series_of(*curve, int(plot.series.size())));
  }
  if (low != nullptr) {
    Series& measured = plot.series.front();
    measured.kind = SeriesKind::line, measured.points = widgets::PointShape::circle;
    measured.low = low->y, measured.high = high->y;
    plot.notes.emplace_back("band: 95 % interval of what was measured");
  }
  const auto same = [&](const auto* other) {
    return other->x == curves[0]->x && other->bound == curves[0]->bound;
  };
  const bool shared = std::ranges::all_of(curves, same);
  for (std::size_t n = 0; n < (shared ? 1 : curves.size()); ++n) {
    const protocol::CheckCurve& curve = *curves[n];
    if (curve.bound.empty()) continue;
    plot.series.push_back({.label = shared ? "bound" : "bound of " + curve.label,
                           .x = places_of(curve),
                           .y = curve.bound,
                           .color = int(shared ? curves.size() : n),
                           .dashed = true,
                           .in_legend = shared || n == 0});
  }
}

}  // namespace

std::string measured_numbers(const protocol::CheckResult& check) {
  std::string words;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) words += (words.empty() ? "" : ", ") + std::string(name) + short_number(*value);
  };
  add("value ", check.value), add("bound ", check.bound), add("noise ", check.noise);
  return words.empty() ? words : words + ", " + std::to_string(check.samples) + " samples";
}

std::vector<PlotSpec> check_figures(const protocol::CheckResult& check, const ModelNames& names) {
  std::vector<CheckCurves> groups;
  for (const protocol::CheckCurve& curve : check.curves) {
    const auto found = std::ranges::find_if(groups, [&](const auto& group) {
      return group.size() < kCurvesAFigure && same_axes(*group[0], curve);
    });
    (found == groups.end() ? groups.emplace_back() : *found).push_back(&curve);
  }
  std::vector<PlotSpec> figures;
  for (const auto& group : groups) {
    figures.push_back(check_figure(check, *group[0], names));
    if (figures.size() > 1) figures.back().id += "_" + std::to_string(figures.size() - 1);
    add_curves(figures.back(), group);
  }
  return figures;
}

PlotSpec job_curve_figure(const protocol::JobStatus& job) {
  PlotSpec plot{.id = "job_" + job.name, .title = job.name + ": loss"};
  plot.x.label = "step";
  plot.y.label = kLossOfJobs;
  Series loss{.label = "training", .width = 1.0};
  Series validation{.label = "validation", .kind = SeriesKind::scatter, .color = 1};
  for (const protocol::MetricPoint& point : job.curve) {
    loss.x.push_back(double(point.step));
    loss.y.push_back(point.loss / std::log(2.0));
    if (!point.validation_bits) continue;
    validation.x.push_back(double(point.step));
    validation.y.push_back(*point.validation_bits);
  }
  if (const auto shown = std::int64_t(job.curve.size()); shown < job.curve_of) {
    plot.notes.push_back(std::to_string(shown) + " of " + std::to_string(job.curve_of) +
                         " points are drawn, evenly over them; metrics.jsonl has all");
  }
  plot.series.push_back(std::move(loss));
  if (!validation.x.empty()) plot.series.push_back(std::move(validation));
  return plot;
}

}  // namespace phasescope::app
