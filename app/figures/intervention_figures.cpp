#include "app/figures/intervention_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "app/figures/intervals.h"
#include "protocol/head_name.h"

namespace phasescope::app {

using widgets::PlotSpec;
using widgets::Series;
using widgets::SeriesKind;

namespace {

constexpr std::size_t kCurves = 6;        // of one figure by position
constexpr std::size_t kMapped = 6;        // changes whose maps are drawn
constexpr std::int64_t kNamedHeads = 48;  // heads along an axis that have a tick each

// A number of every head, layers down and heads across; NaN where there is none.
widgets::MapSpec heads_grid(PlotSpec& plot, std::int64_t layers, std::int64_t heads) {
  widgets::MapSpec map{.rows = int(layers), .cols = int(heads)};
  map.values.assign(std::size_t(layers * heads), std::numeric_limits<float>::quiet_NaN());
  map.row_name = "layer", map.col_name = "head";
  plot.x.label = "head", plot.x.of = widgets::Coordinate::head, plot.y.label = "layer",
  plot.y.of = widgets::Coordinate::layer;
  plot.legend = false;
  for (std::int64_t h = 0; h < heads; ++h) {
    plot.x.ticks.push_back({double(h) + 0.5, "H" + std::to_string(h)});
  }
  for (std::int64_t l = 0; l < layers; ++l) {
    plot.y.ticks.push_back({double(l) + 0.5, "L" + std::to_string(l)});
  }
  return map;
}

void add_facts(PlotSpec& plot, const protocol::AblateResult& result, const ModelNames& names) {
  plot.notes.push_back("nats a token; loss as it is " + with_ends(result.loss) + ", " +
                       words_of(result.loss));
  add_notes(plot.notes, std::vector{result.provenance}, names);
}

PlotSpec changes_map(const protocol::AblateResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "ablate_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": what the loss rises by, head by head"};
  widgets::MapSpec map = heads_grid(plot, result.layers, result.heads);
  for (const protocol::AblateRow& row : result.rows) {
    map.values[std::size_t(*row.layer * result.heads + *row.head)] = float(row.loss_change.mean);
  }
  map.colormap = widgets::Colormap::signed_values;
  map.range = widgets::value_range(map.values);
  map.value_label = "change of the loss (nats a token)";
  plot.notes.push_back(widgets::scale_note(map));
  add_facts(plot, result, names);
  plot.map = std::move(map);
  return plot;
}

// A line from one end of an interval to the other, a point's.
void add_whisker(Series& whiskers, double x, const protocol::Interval& interval) {
  if (!interval.low || !interval.high) return;
  const double gap = std::numeric_limits<double>::quiet_NaN();
  whiskers.x.insert(whiskers.x.end(), {x, x, gap});
  whiskers.y.insert(whiskers.y.end(), {*interval.low, *interval.high, gap});
}

PlotSpec changes_points(const protocol::AblateResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "ablate_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": what the loss rises by"};
  plot.y.label = "change of the loss (nats a token)";
  Series series{.label = "change", .points = widgets::PointShape::circle};
  Series whiskers{.label = "95 % interval"};
  for (std::size_t n = 0; n < result.rows.size(); ++n) {
    const protocol::AblateRow& row = result.rows[n];
    series.x.push_back(double(n)), series.y.push_back(row.loss_change.mean);
    add_whisker(whiskers, double(n), row.loss_change);
    plot.x.ticks.push_back({double(n), row.change});
  }
  plot.markers.push_back({.at = 0, .vertical = false, .label = ""});
  plot.series.push_back(std::move(series));
  if (!whiskers.x.empty()) plot.series.push_back(std::move(whiskers));
  plot.legend = false;
  add_facts(plot, result, names);
  return plot;
}

Series curve_of(const std::vector<protocol::LossBlock>& blocks, std::string label, int color) {
  Series series{.label = std::move(label), .color = color};
  for (const protocol::LossBlock& block : blocks) {
    series.x.push_back(double(block.begin + block.end - 1) / 2);
    series.y.push_back(block.change.mean);
    add_ends(series, block.change.low, block.change.high);
  }
  return series;
}

// The changes that move the loss most, largest first.
std::vector<const protocol::AblateRow*> largest_changes(const protocol::AblateResult& result,
                                                        std::size_t most) {
  std::vector<const protocol::AblateRow*> rows;
  for (const protocol::AblateRow& row : result.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater<>{},
                           [](const auto* row) { return std::abs(row->loss_change.mean); });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

PlotSpec changes_by_position(const protocol::AblateResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "ablate_positions_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": what the loss rises by, by position"};
  plot.x.label = "position (token)", plot.x.of = widgets::Coordinate::position,
  plot.y.label = "change of the loss (nats a token)";
  for (const protocol::AblateRow* row : largest_changes(result, kCurves)) {
    plot.series.push_back(curve_of(row->positions, row->change, int(plot.series.size())));
  }
  plot.markers.push_back({.at = 0, .vertical = false, .label = ""});
  if (result.rows.size() > kCurves) {
    plot.notes.push_back("the " + std::to_string(kCurves) + " largest of " +
                         std::to_string(result.rows.size()) + " changes");
  }
  add_facts(plot, result, names);
  return plot;
}

PlotSpec maps_moved(const protocol::AblateResult& result, const protocol::AblateRow& row,
                    std::size_t number, const ModelNames& names) {
  PlotSpec plot{
      .id = "ablate_maps_" + names.file_name(result.model) + "_" + std::to_string(number + 1),
      .title =
          names.short_name(result.model) + ", " + row.change + ": how far every head's map moves"};
  widgets::MapSpec map = heads_grid(plot, result.layers, result.heads);
  for (const protocol::MapChange& one : row.maps) {
    map.values[std::size_t(one.layer * result.heads + one.head)] = float(one.divergence.mean);
  }
  map.colormap = widgets::Colormap::viridis;
  map.range = {0, std::log(2.0)};
  map.value_label = "divergence (nats)";
  plot.notes.push_back(
      "Jensen-Shannon divergence of the rows before and after, mean; ln 2 = 0.693 "
      "for rows without a common key; " +
      words_of(row.maps.front().divergence));
  add_notes(plot.notes, std::vector{result.provenance}, names);
  plot.map = std::move(map);
  return plot;
}

// Heads along an axis, by layers where there are many.
void label_heads(widgets::AxisSpec& axis, std::int64_t count, std::int64_t heads) {
  const bool each = count <= kNamedHeads;
  for (std::int64_t n = 0; n < count; ++n) {
    if (!each && n % heads != 0) continue;
    axis.ticks.push_back({double(n) + 0.5, each ? protocol::name_of_head(n / heads, n % heads)
                                                : "L" + std::to_string(n / heads)});
  }
}

widgets::MapSpec divergences(const Grid& matrix) {
  widgets::MapSpec map{
      .rows = int(matrix.shape.at(0)), .cols = int(matrix.shape.at(1)), .values = matrix.values};
  map.colormap = widgets::Colormap::viridis;
  map.range = {0, std::log(2.0)};
  map.value_label = "divergence (nats)";
  map.row_name = map.col_name = "head";
  return map;
}

constexpr const char* kDivergenceNote =
    "Jensen-Shannon divergence of the rows of two heads, mean; 0 for equal ones, ln 2 = 0.693 for "
    "rows without a common key";

}  // namespace

std::vector<PlotSpec> ablate_figures(const protocol::AblateResult& result,
                                     const ModelNames& names) {
  std::vector<PlotSpec> figures;
  const auto of_a_head = [](const protocol::AblateRow& row) { return row.head.has_value(); };
  const bool grid = result.rows.size() > 1 && std::ranges::all_of(result.rows, of_a_head);
  figures.push_back(grid ? changes_map(result, names) : changes_points(result, names));
  figures.push_back(changes_by_position(result, names));
  std::size_t drawn = 0;
  for (std::size_t n = 0; n < result.rows.size() && drawn < kMapped; ++n) {
    if (result.rows[n].maps.empty()) continue;
    figures.push_back(maps_moved(result, result.rows[n], n, names));
    ++drawn;
  }
  return figures;
}

PlotSpec loss_change_figure(const protocol::CompareResult& result, const ModelNames& names) {
  const std::string a = names.short_name(result.a), b = names.short_name(result.b);
  PlotSpec plot{.id = "loss_change_" + names.file_name(result.a) + "_" + names.file_name(result.b),
                .title = "Loss of " + b + " - loss of " + a + ", by position"};
  plot.x.label = "position (token)", plot.x.of = widgets::Coordinate::position,
  plot.y.label = "difference of the loss (nats a token)";
  plot.series.push_back(curve_of(result.positions, b + " - " + a, names.color(result.b)));
  plot.markers.push_back({.at = 0, .vertical = false, .label = ""});
  plot.notes.push_back("mean " + with_ends(result.loss_difference) + ", " +
                       words_of(result.loss_difference) + "; paired row by row");
  return plot;
}

PlotSpec heads_divergence_figure(const protocol::HeadsResult& result, const Grid& matrix,
                                 const ModelNames& names) {
  PlotSpec plot{.id = "head_divergence_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": divergence of every two heads"};
  plot.legend = false;
  label_heads(plot.x, matrix.shape.at(1), result.heads);
  label_heads(plot.y, matrix.shape.at(0), result.heads);
  plot.map = divergences(matrix);
  plot.notes.push_back(kDivergenceNote);
  std::int64_t texts = 0;  // a head that is not there has none
  for (const protocol::HeadRow& row : result.rows) {
    const auto found = row.values.find("js_divergence");
    if (found != row.values.end()) texts = std::max(texts, found->second.n);
  }
  if (texts > 0) plot.notes.push_back("n = " + std::to_string(texts) + " texts");
  if (!result.stack.empty()) plot.notes.push_back(stack_note(result.stack));
  return plot;
}

namespace {

// Rows and columns of a matrix of heads that have a number: where a layer has a state in place of
// attention, or fewer heads than others, cells stand for heads that are not there.
std::pair<std::int64_t, std::int64_t> heads_that_are_there(const Grid& matrix) {
  const std::int64_t rows = matrix.shape.at(0), columns = matrix.shape.at(1);
  std::vector<bool> row(static_cast<std::size_t>(rows)), column(static_cast<std::size_t>(columns));
  for (std::int64_t n = 0; n < rows * columns; ++n) {
    if (std::isnan(matrix.values[static_cast<std::size_t>(n)])) continue;
    row[static_cast<std::size_t>(n / columns)] = column[static_cast<std::size_t>(n % columns)] =
        true;
  }
  return {std::ranges::count(row, true), std::ranges::count(column, true)};
}

}  // namespace

PlotSpec matched_heads_figure(const protocol::CompareResult& result, const Grid& matrix,
                              HeadsALayer heads, const ModelNames& names) {
  const std::int64_t rows = matrix.shape.at(0), columns = matrix.shape.at(1);
  heads = {std::max<std::int64_t>(1, heads.a), std::max<std::int64_t>(1, heads.b)};
  const std::string a = names.short_name(result.a), b = names.short_name(result.b);
  PlotSpec plot{.id = "matched_" + compared_id(result, names),
                .title = "Every head of " + a + " beside every head of " + b};
  plot.legend = false;
  plot.x.label = b, plot.y.label = a;
  label_heads(plot.y, rows, heads.a);
  label_heads(plot.x, columns, heads.b);
  plot.map = divergences(matrix);
  Series marks{.label = "matched", .kind = SeriesKind::scatter, .color = 3};
  // Where a cell has its number, that stands in the middle.
  const bool numbers = std::max(rows, columns) <= widgets::kReadableCells;
  const double across = numbers ? 0.88 : 0.5, down = numbers ? 0.18 : 0.5;
  for (const protocol::HeadMatch& match : result.matches) {
    marks.x.push_back(double(match.other_layer * heads.b + match.other_head) + across);
    marks.y.push_back(double(match.layer * heads.a + match.head) + down);
  }
  plot.series.push_back(std::move(marks));
  plot.notes.push_back(kDivergenceNote);
  std::string dots = "dots: the pairing with the smallest sum of divergences";
  const auto [heads_of_a, heads_of_b] = heads_that_are_there(matrix);
  if (heads_of_a != heads_of_b) {
    const std::int64_t alone = std::abs(heads_of_a - heads_of_b);
    dots += "; " + std::to_string(alone) + (alone == 1 ? " head of " : " heads of ") +
            (heads_of_a > heads_of_b ? a : b) + (alone == 1 ? " has" : " have") + " no partner";
  }
  plot.notes.push_back(std::move(dots));
  if (!result.provenance.note.empty()) plot.notes.push_back(result.provenance.note);
  return plot;
}

}  // namespace phasescope::app
