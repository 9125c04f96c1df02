#include <algorithm>
#include <cmath>
#include <map>

#include "app/figures/distance_axis.h"
#include "app/figures/intervals.h"
#include "app/figures/question_figures.h"
#include "app/figures/question_parts.h"
#include "protocol/head_name.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;

std::vector<PlotSpec> demand_figures(const protocol::DemandResult& result,
                                     const ModelNames& names) {
  std::map<std::int64_t, PlotSpec> by_layer;
  for (const protocol::DemandRow& row : result.rows) {
    PlotSpec& plot = by_layer[row.layer];
    const std::string layer = layer_name(row.layer);
    plot.id = "demand_" + names.file_name(result.model) + "_" + layer;
    plot.title =
        names.short_name(result.model) + " " + layer + ": at which distances heads want weight";
    plot.x = log_distance_axis();
    plot.y.label = "demand (bits a token per unit of score)";
    Series series{.label = "H" + std::to_string(row.head), .color = int(row.head)};
    for (std::size_t n = 0; n < row.demand.size(); ++n) {
      series.x.push_back(on_log_axis(double(result.edges[n])));
      series.y.push_back(row.demand[n].mean);
      add_ends(series, row.demand[n].low, row.demand[n].high);
    }
    plot.series.push_back(std::move(series));
  }
  std::vector<PlotSpec> figures;
  for (auto& [layer, plot] : by_layer) {
    plot.markers.push_back(
        {.at = on_log_axis(double(result.trained)), .label = "trained length", .beyond = true});
    plot.markers.push_back({.at = 0, .vertical = false});
    plot.notes.push_back("a point is a bucket's sum, at its first distance; band: 95 %, " +
                         words_of(result.loss));
    plot.notes.push_back(result.formula);
    add_notes(plot.notes, std::vector{result.provenance}, names);
    figures.push_back(std::move(plot));
  }
  return figures;
}

namespace {

// Where a distance stands on an axis whose bars are buckets: bucket n is n - 0.5 to n + 0.5, the
// last one as wide as its length shows.
double place_in_buckets(const std::vector<std::int64_t>& edges, std::int64_t distance) {
  for (std::size_t n = 0; n + 1 < edges.size(); ++n) {
    if (distance >= edges[n + 1]) continue;
    const double into = double(distance - edges[n]) / double(edges[n + 1] - edges[n]);
    return double(n) - 0.5 + into;
  }
  return double(edges.size()) - (distance > edges.back() ? 0.5 : 1.5);
}

// First distances of some buckets, so that they have room in a small plot.
std::vector<widgets::AxisTick> bucket_ticks(const std::vector<std::int64_t>& edges) {
  constexpr std::size_t kTicks = 5;
  const std::size_t step = std::max<std::size_t>(1, (edges.size() + kTicks - 1) / kTicks);
  std::vector<widgets::AxisTick> ticks;
  for (std::size_t n = 0; n < edges.size(); n += step) {
    ticks.push_back({double(n), std::to_string(edges[n])});
  }
  return ticks;
}

// The range of all heads' sums and intervals.
widgets::ValueRange demand_range(const protocol::DemandResult& result) {
  widgets::ValueRange range{0, 0};
  const auto add = [&range](double x) {
    if (!std::isfinite(x)) return;
    range.low = std::min(range.low, x), range.high = std::max(range.high, x);
  };
  for (const protocol::DemandRow& row : result.rows) {
    for (const protocol::Interval& one : row.demand) {
      for (const double x : {one.mean, one.low.value_or(one.mean), one.high.value_or(one.mean)}) {
        add(x);
      }
    }
  }
  const double margin = 0.04 * (range.high - range.low);
  return {range.low - margin, range.high + margin};
}

}  // namespace

widgets::GridSpec demand_grid(const protocol::DemandResult& result, const ModelNames& names) {
  constexpr int kMostAcross = 8;
  widgets::GridSpec grid{
      .id = "demand_heads_" + names.file_name(result.model),
      .title = names.short_name(result.model) + ": at which distances heads want weight"};
  const widgets::ValueRange range = demand_range(result);
  std::map<std::int64_t, int> in_layer;
  for (const protocol::DemandRow& row : result.rows) {
    grid.columns = std::max(grid.columns, ++in_layer[row.layer]);
    PlotSpec plot;
    plot.x.low = -0.5, plot.x.high = double(result.edges.size()) - 0.5;
    plot.x.ticks = bucket_ticks(result.edges);
    plot.y.low = range.low, plot.y.high = range.high;
    Series bars{.label = "demand", .kind = SeriesKind::bars, .color = int(row.layer)};
    for (std::size_t n = 0; n < row.demand.size(); ++n) {
      bars.x.push_back(double(n)), bars.y.push_back(row.demand[n].mean);
      add_ends(bars, row.demand[n].low, row.demand[n].high);
    }
    plot.series.push_back(std::move(bars));
    plot.markers.push_back({.at = 0, .vertical = false});
    const double trained = place_in_buckets(result.edges, result.trained);
    if (trained < *plot.x.high) plot.markers.push_back({.at = trained, .beyond = true});
    const std::string head = protocol::name_of_head(row.layer, row.head);
    grid.cells.push_back({{}, head, std::move(plot)});
  }
  grid.columns = std::min(grid.columns, kMostAcross);
  grid.notes = {
      "across: buckets of distances, named by their first one (tokens); up: the bucket's sum (bits "
      "a token per unit of score), one scale for all heads, from " +
          widgets::short_number(range.low) + " to " + widgets::short_number(range.high) +
          "; lines: 95 %, " + words_of(result.loss) + "; shaded: beyond the trained length of " +
          std::to_string(result.trained) + " tokens",
      result.formula};
  add_notes(grid.notes, std::vector{result.provenance}, names);
  return grid;
}

PlotSpec demand_of_models(const std::vector<protocol::DemandResult>& results,
                          const ModelNames& names) {
  PlotSpec plot{.id = "demand", .title = "At which distances heads want other weights"};
  plot.x = log_distance_axis();
  plot.y.label = "sum of |demand| over heads (bits a token per unit of score)";
  for (const protocol::DemandResult& result : results) {
    Series curve = series_of(result.model, names);
    for (std::size_t n = 0; n < result.edges.size(); ++n) {
      double sum = 0;
      for (const protocol::DemandRow& row : result.rows) sum += std::abs(row.demand[n].mean);
      curve.x.push_back(on_log_axis(double(result.edges[n]))), curve.y.push_back(sum);
    }
    plot.series.push_back(std::move(curve));
  }
  mark_trained(plot, results, on_log_axis(0));
  plot.notes.push_back("a point is a bucket's sum, at its first distance");
  add_what_made(plot, results, names);
  return plot;
}

}  // namespace phasescope::app
