#include <algorithm>
#include <cmath>
#include <numbers>

#include "app/figures/distance_axis.h"
#include "app/figures/intervals.h"
#include "app/figures/question_figures.h"
#include "app/figures/question_parts.h"
#include "protocol/head_name.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;

namespace {

// In the model's colour, as all that is of one model alone.
PlotSpec phasor_figure(const protocol::PairResult& result, const std::string& title,
                       const std::string& id, int color) {
  PlotSpec plot{.id = "pair_phasors_" + id, .title = title + ": phasors"};
  plot.x.label = "real part (score)", plot.y.label = "imaginary part";
  plot.equal_axes = true;
  Series path{.label = "planes, head to tail", .x = {0}, .y = {0}, .color = color};
  path.points = widgets::PointShape::circle;
  for (const std::vector<double>& phasor : result.phasors) {
    path.x.push_back(path.x.back() + phasor[0]);
    path.y.push_back(path.y.back() + phasor[1]);
  }
  plot.series.push_back(std::move(path));
  plot.markers.push_back({.at = result.score - result.tail, .label = "score without tail"});
  plot.notes.push_back(result.formula);
  return plot;
}

// TAPA's one hand, and the circle that its tip is on at any distance: the real part is the score.
PlotSpec hand_figure(const protocol::PairResult& result, const std::string& title,
                     const std::string& id, int color) {
  PlotSpec plot{.id = "pair_hand_" + id, .title = title + ": its hand"};
  plot.x.label = "real part (score)", plot.y.label = "imaginary part";
  plot.equal_axes = true;
  const double length = result.clock->amplitude, phase = result.clock->phase;
  Series circle{.label = "at other distances", .color = 7, .quiet = true};
  constexpr int kPoints = 96;
  for (int n = 0; n <= kPoints; ++n) {
    const double angle = 2 * std::numbers::pi * n / kPoints;
    circle.x.push_back(length * std::cos(angle)), circle.y.push_back(length * std::sin(angle));
  }
  Series hand{.label = "at distance " + std::to_string(result.true_distance),
              .x = {0, length * std::cos(phase)},
              .y = {0, length * std::sin(phase)},
              .color = color};
  hand.points = widgets::PointShape::circle;
  plot.series = {std::move(circle), std::move(hand)};
  plot.markers.push_back({.at = result.score, .label = "score"});
  plot.notes.push_back("length " + widgets::short_number(length) + ", angle " +
                       widgets::short_number(phase) +
                       " radians, turns and the half turn of a negative amplitude included");
  return plot;
}

// Values on what lies below them: y is `under` + `values`, and the band between is filled.
Series stacked(const std::string& label, const std::vector<double>& under,
               const std::vector<double>& values, int color) {
  Series series{.label = label, .color = color};
  for (std::size_t n = 0; n < values.size(); ++n) {
    const double below = under.empty() ? 0 : under[n];
    series.y.push_back(below + values[n]);
    series.low.push_back(std::min(below, series.y.back()));
    series.high.push_back(std::max(below, series.y.back()));
  }
  return series;
}

double largest_size(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

// What a score that planes do not turn is the sum of, against the distance: content, what distance
// adds, and CAPE's correction of both.
PlotSpec parts_figure(const protocol::PairResult& result, const std::string& title,
                      const std::string& id) {
  PlotSpec plot{.id = "pair_parts_" + id, .title = title + ": what the score is made of"};
  plot.x = log_distance_axis();
  plot.y.label = "score";
  std::vector<double> x, score, content, bias, correction;
  for (const protocol::PairPoint& point : *result.curve) {
    x.push_back(on_log_axis(double(point.distance)));
    score.push_back(point.score);
    content.push_back(result.content);
    correction.push_back(point.correction.value_or(0));
    bias.push_back(point.base.value_or(point.score - result.content - correction.back()));
  }
  const bool corrects = result.correction.has_value(), based = result.base.has_value();
  // A form without a base, and without a turn of the content, leaves rounding alone.
  constexpr double kRounding = 1e-4;
  const bool adds = !corrects || based || largest_size(bias) > kRounding * largest_size(score);
  plot.series.push_back(stacked("content", {}, content, 0));
  const auto add = [&](const std::string& label, const std::vector<double>& values) {
    const std::vector<double> under = plot.series.back().y;
    plot.series.push_back(stacked(label, under, values, int(plot.series.size())));
  };
  if (adds) add(based ? "base bias on it" : "what distance adds", bias);
  if (corrects) add("correction on that", correction);
  for (Series& series : plot.series) series.x = x;
  plot.markers.push_back(
      {.at = on_log_axis(double(result.true_distance)), .label = "true distance"});
  plot.markers.push_back(
      {.at = on_log_axis(double(result.trained)), .label = "trained length", .beyond = true});
  plot.notes.push_back("each part stands on the ones before it; the last line is the score");
  if (!result.cut.empty()) plot.notes.push_back(result.cut);
  plot.notes.push_back(result.formula);
  return plot;
}

PlotSpec pair_curve(const protocol::PairResult& result, const std::string& title,
                    const std::string& id, bool weight, int color) {
  PlotSpec plot{.id = (weight ? "pair_weight_" : "pair_score_") + id,
                .title = title + ": where the key would be read"};
  plot.x = log_distance_axis();
  plot.y.label = weight ? "weight" : "score";
  Series series{.label = plot.y.label, .color = color};
  for (const protocol::PairPoint& point : *result.curve) {
    series.x.push_back(on_log_axis(double(point.distance)));
    series.y.push_back(weight ? point.weight : point.score);
  }
  plot.series.push_back(std::move(series));
  plot.markers.push_back(
      {.at = on_log_axis(double(result.true_distance)), .label = "true distance"});
  plot.markers.push_back(
      {.at = on_log_axis(double(result.trained)), .label = "trained length", .beyond = true});
  plot.notes.push_back("the other keys stay where they are");
  if (!result.cut.empty()) plot.notes.push_back(result.cut);
  plot.notes.push_back(result.formula);
  return plot;
}

}  // namespace

std::vector<PlotSpec> pair_figures(const protocol::PairResult& result, const ModelNames& names) {
  const std::string head = protocol::name_of_head(result.layer, result.head);
  const std::string title = names.short_name(result.model) + " " + head + ", query " +
                            std::to_string(result.query) + ", key " + std::to_string(result.key);
  const std::string id = names.file_name(result.model) + "_" + head;
  const int color = names.color(result.model);
  std::vector<PlotSpec> figures;
  if (!result.phasors.empty()) figures.push_back(phasor_figure(result, title, id, color));
  if (result.clock) figures.push_back(hand_figure(result, title, id, color));
  if (result.curve && result.phasors.empty() && !result.clock) {
    figures.push_back(parts_figure(result, title, id));
  }
  if (result.curve) {
    figures.push_back(pair_curve(result, title, id, false, color));
    figures.push_back(pair_curve(result, title, id, true, color));
  }
  return figures;
}

PlotSpec pair_of_models(const std::vector<protocol::PairResult>& results, const ModelNames& names) {
  const protocol::PairResult& first = results.front();
  PlotSpec plot{.id = "pair",
                .title = protocol::name_of_head(first.layer, first.head) + ", query " +
                         std::to_string(first.query) + ", key " + std::to_string(first.key) +
                         ": where the key would be read"};
  plot.x = log_distance_axis();
  plot.y.label = "weight";
  for (const protocol::PairResult& result : results) {
    if (!result.curve) {
      plot.notes.push_back(names.short_name(result.model) + ": " + result.why);
      continue;
    }
    Series curve = series_of(result.model, names);
    for (const protocol::PairPoint& point : *result.curve) {
      curve.x.push_back(on_log_axis(double(point.distance))), curve.y.push_back(point.weight);
    }
    if (!result.cut.empty()) {
      plot.notes.push_back(names.short_name(result.model) + ": " + result.cut);
    }
    plot.series.push_back(std::move(curve));
  }
  plot.markers.push_back(
      {.at = on_log_axis(double(first.true_distance)), .label = "true distance"});
  mark_trained(plot, results, on_log_axis(0));
  plot.notes.push_back("the other keys stay where they are");
  add_what_made(plot, results, names);
  return plot;
}

}  // namespace phasescope::app
