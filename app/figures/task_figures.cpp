#include "app/figures/task_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace phasescope::app {

using protocol::EvalCell;
using protocol::EvalResult;
using protocol::EvalRow;
using widgets::MapSpec;
using widgets::PlotSpec;
using widgets::Series;

namespace {

// Cells are pairs of lengths; otherwise a length and a depth.
bool of_pairs(const EvalResult& result) {
  return std::ranges::any_of(result.cells, [](const EvalCell& cell) { return cell.column >= 1; });
}

std::int64_t trained_length(const EvalResult& result, const std::string& model) {
  for (const EvalRow& row : result.rows) {
    if (row.model == model && row.trained) return *row.trained;
  }
  return 0;
}

void add_line(PlotSpec& plot, const std::string& label,
              const std::map<std::int64_t, double>& values, int color) {
  if (values.empty()) return;
  Series series{.label = label, .color = color, .width = 1.2, .dashed = true};
  for (const auto& [length, value] : values) {
    series.x.push_back(double(length)), series.y.push_back(value);
  }
  plot.series.push_back(std::move(series));
}

// From the smallest place to the largest, step by step.
std::vector<double> places_of(const std::vector<EvalCell>& cells, double EvalCell::*place) {
  std::set<double> places;
  for (const EvalCell& cell : cells) places.insert(cell.*place);
  return {places.begin(), places.end()};
}

std::size_t index_of(const std::vector<double>& places, double place) {
  return std::size_t(std::ranges::lower_bound(places, place) - places.begin());
}

// A tick in the middle of each row or column, as many as can be read.
std::vector<widgets::AxisTick> ticks_of(const std::vector<double>& places) {
  constexpr std::size_t kMostTicks = 12;
  const std::size_t step = (places.size() + kMostTicks - 1) / kMostTicks;
  std::vector<widgets::AxisTick> ticks;
  for (std::size_t n = 0; n < places.size(); n += step) {
    ticks.push_back({double(n) + 0.5, widgets::short_number(places[n])});
  }
  return ticks;
}

// The square of the lengths that a model was trained at.
void outline_trained(PlotSpec& plot, const std::vector<double>& rows,
                     const std::vector<double>& columns, std::int64_t trained) {
  const auto inside = [trained](const std::vector<double>& places) {
    return double(std::ranges::count_if(places, [&](double at) { return at <= double(trained); }));
  };
  const double down = inside(rows), right = inside(columns);
  if (trained == 0 || down == 0 || right == 0) return;
  plot.series.push_back(
      {.label = "trained", .x = {0, right, right, 0, 0}, .y = {0, 0, down, down, 0}, .color = 1});
}

PlotSpec map_of(const EvalResult& result, const std::string& model,
                const std::vector<EvalCell>& cells, const ModelNames& names) {
  const std::vector<double> rows = places_of(cells, &EvalCell::row),
                            columns = places_of(cells, &EvalCell::column);
  MapSpec map{.rows = int(rows.size()),
              .cols = int(columns.size()),
              .range = {0, 1},
              .value_label = result.metric,
              .row_name = result.rows_of.value_or("row"),
              .col_name = result.columns_of.value_or("column")};
  map.values.assign(rows.size() * columns.size(), std::numeric_limits<float>::quiet_NaN());
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const EvalCell& cell : cells) {
    const std::size_t at =
        index_of(rows, cell.row) * columns.size() + index_of(columns, cell.column);
    map.values[at] = float(cell.value);
    least = std::min(least, cell.n), most = std::max(most, cell.n);
  }
  map.colormap = widgets::Colormap::viridis;
  PlotSpec plot{.id = "eval_" + result.task + "_map_" + names.file_name(model),
                .title = names.short_name(model) + ": " + result.task + ", " + result.metric};
  plot.x = {.label = map.col_name, .ticks = ticks_of(columns)};
  plot.y = {.label = map.row_name, .ticks = ticks_of(rows)};
  plot.notes.push_back("samples a cell: " + std::to_string(least) +
                       (most > least ? " to " + std::to_string(most) : ""));
  if (of_pairs(result)) outline_trained(plot, rows, columns, trained_length(result, model));
  plot.map = std::move(map);
  return plot;
}

}  // namespace

void add_guessers(const EvalResult& result, const ModelNames& names, PlotSpec& plot) {
  std::map<std::int64_t, double> blind, inside;
  std::map<std::int64_t, std::string> trained;  // whose it is
  const bool pairs = of_pairs(result);
  for (const EvalRow& row : result.rows) {
    if (row.blind) blind[row.length] = *row.blind;
    if (!row.trained) continue;
    std::string& whose = trained[*row.trained];
    const std::string name = names.short_name(row.model);
    if (whose.find(name) == whose.npos) whose += (whose.empty() ? "" : ", ") + name;
  }
  const int color = int(plot.series.size());
  add_line(plot, "blind guesser", blind, color);
  if (pairs && trained.size() == 1) {
    for (const auto& [length, unused] : blind) {
      const double side = std::min(1.0, double(trained.begin()->first) / double(length));
      inside[length] = side * side;
    }
    add_line(plot, "right at the trained lengths alone", inside, color + 1);
  }
  for (const auto& [length, whose] : trained) {
    plot.markers.push_back(
        {.at = double(length),
         .label = trained.size() > 1 ? "trained: " + whose : std::string("trained length")});
  }
}

std::vector<std::string> encodings_of(const EvalResult& result) {
  std::vector<std::string> encodings;
  for (const EvalRow& row : result.rows) {
    const bool seen = std::ranges::find(encodings, row.encoding) != encodings.end();
    if (!seen) encodings.push_back(row.encoding);
  }
  return encodings;
}

std::vector<PlotSpec> task_maps(const EvalResult& result, const ModelNames& names) {
  std::vector<std::string> models;
  std::map<std::string, std::vector<EvalCell>> by_model;
  for (const EvalCell& cell : result.cells) {
    if (!by_model.contains(cell.model)) models.push_back(cell.model);
    by_model[cell.model].push_back(cell);
  }
  std::vector<PlotSpec> maps;
  for (const std::string& model : models) {
    maps.push_back(map_of(result, model, by_model.at(model), names));
  }
  return maps;
}

}  // namespace phasescope::app
