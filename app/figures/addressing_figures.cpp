#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "app/figures/intervals.h"
#include "app/figures/point_shapes.h"
#include "app/figures/question_figures.h"
#include "app/figures/question_parts.h"
#include "protocol/head_name.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;

namespace {

// Where shares of distance (left corner), key (right corner) and pair (top) stand.
struct Place {
  double x = 0, y = 0;
};
Place place_of(double key, double pair) { return {key + pair / 2, pair * std::sqrt(3.0) / 2}; }

Series triangle() {
  const double top = std::sqrt(3.0) / 2;
  return {.label = "distance (left), key (right), pair (top)",
          .x = {0, 1, 0.5, 0},
          .y = {0, 0, top, 0},
          .color = 7,
          .quiet = true};
}

// The three shares sum to 1: those of distance and key are read on the base line, that of pair
// upwards.
void set_axes(PlotSpec& plot) {
  plot.x.label = "from distance to key", plot.y.label = "pair (share)";
  plot.x.ticks = {{0, "all distance"}, {0.5, "half each"}, {1, "all key"}};
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    plot.y.ticks.push_back({place_of(0, share).y, widgets::short_number(share)});
  }
  plot.x.low = -0.05, plot.x.high = 1.05, plot.y.low = -0.05, plot.y.high = 0.95;
  plot.equal_axes = true;
}

// A head's dot, by area as large as its query share, and the whisker to where it stands if its
// trend is the key's.
void add_head(const protocol::AddressingRow& row, const std::string& name, Series& dots,
              Series& whiskers) {
  if (!row.distance_first) return;
  const Place dot = place_of(row.key_last->mean, row.interaction->mean);
  const Place end = place_of(row.key_first->mean, row.interaction->mean);
  const double query = row.query ? std::clamp(row.query->mean, 0.0, 1.0) : 0;
  dots.kind = SeriesKind::scatter;
  dots.x.push_back(dot.x), dots.y.push_back(dot.y);
  dots.sizes.push_back(2 + 5 * std::sqrt(query));
  dots.names.push_back(name);
  const double gap = std::numeric_limits<double>::quiet_NaN();
  whiskers.color = dots.color, whiskers.width = 0.8;
  whiskers.x.insert(whiskers.x.end(), {dot.x, end.x, gap});
  whiskers.y.insert(whiskers.y.end(), {dot.y, end.y, gap});
}

constexpr const char* kDotsAndWhiskers =
    "a dot is a head, the larger the more of its variance lies between rows, which no weight sees; "
    "a "
    "trend that distance or key could have is the distance's, and the whisker ends where the head "
    "stands if it is the key's";

}  // namespace

PlotSpec addressing_figure(const protocol::AddressingResult& result, const ModelNames& names) {
  PlotSpec plot{
      .id = "addressing_" + names.file_name(result.model),
      .title = names.short_name(result.model) + ": what the scores of a head are made of"};
  set_axes(plot);
  plot.series.push_back(triangle());
  std::map<std::int64_t, Series> dots, whiskers;
  for (const protocol::AddressingRow& row : result.rows) {
    if (!row.distance_first) continue;
    Series& of_layer = dots[row.layer];
    of_layer.label = layer_name(row.layer), of_layer.color = int(row.layer);
    of_layer.points = shape_at(std::size_t(row.layer));
    add_head(row, protocol::name_of_head(row.layer, row.head), of_layer, whiskers[row.layer]);
  }
  for (auto& [layer, series] : dots) plot.series.push_back(std::move(series));
  for (auto& [layer, series] : whiskers) plot.series.push_back(std::move(series));
  plot.notes.push_back(kDotsAndWhiskers);
  plot.notes.push_back(result.formula);
  plot.notes.push_back("n = " + std::to_string(result.texts.size()) + " texts");
  add_notes(plot.notes, std::vector{result.provenance}, names);
  return plot;
}

PlotSpec addressing_of_models(const std::vector<protocol::AddressingResult>& results,
                              const ModelNames& names) {
  PlotSpec plot{.id = "addressing", .title = "What the scores of heads are made of"};
  set_axes(plot);
  plot.series.push_back(triangle());
  for (const protocol::AddressingResult& result : results) {
    Series dots = series_of(result.model, names), whiskers;
    dots.points = shape_at(std::size_t(dots.color));
    for (const protocol::AddressingRow& row : result.rows) {
      add_head(row, dots.label + " " + protocol::name_of_head(row.layer, row.head), dots, whiskers);
    }
    plot.series.push_back(std::move(dots)), plot.series.push_back(std::move(whiskers));
  }
  plot.notes.push_back(kDotsAndWhiskers);
  add_what_made(plot, results, names);
  return plot;
}

}  // namespace phasescope::app
