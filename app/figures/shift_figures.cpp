#include <algorithm>
#include <map>
#include <set>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/figures/published.h"
#include "app/figures/shift_words.h"

namespace phasescope::app {

using protocol::ShiftRow;
using widgets::PlotSpec;
using widgets::Scale;
using widgets::Series;

namespace {

// The published table is of shifts by this.
constexpr std::int64_t kPublishedShiftBy = 3;

// What of the rows a figure shows.
struct ShiftQuantity {
  std::string id, title, label;
  std::string published;  // the metric of the published series, without the method
  std::optional<double> (*value)(const ShiftRow&);
  protocol::IntervalEnd ShiftRow::*low;
  protocol::IntervalEnd ShiftRow::*high;
};

ShiftQuantity attention_quantity() {
  return {"shift",
          "Shift stability: attention difference by layer",
          "attention difference (1e-2)",
          "attention difference ",
          [](const ShiftRow& row) { return std::optional<double>(row.attention_difference); },
          &ShiftRow::attention_low,
          &ShiftRow::attention_high};
}

ShiftQuantity position_quantity() {
  return {"shift_positions",
          "Shift stability: difference of position products by layer",
          "100 ||G - G'|| / ||G||",
          "position difference ",
          [](const ShiftRow& row) { return row.position_difference; },
          &ShiftRow::position_low,
          &ShiftRow::position_high};
}

bool is_zero(const Series& series) {
  return std::ranges::all_of(series.y, [](double y) { return y == 0; });
}

// A log axis cannot show them: they are named instead.
std::string unmoved_note(const PlotSpec& plot) {
  std::string names;
  for (const Series& series : plot.series) {
    if (is_zero(series)) names += (names.empty() ? "" : ", ") + series.label;
  }
  return names.empty() ? "" : "exactly 0 in every layer, so not on the log axis: " + names;
}

// A curve that the axis has no place for is said to be there in the legend.
void name_zeros(PlotSpec& plot) {
  for (Series& series : plot.series) {
    if (is_zero(series)) series.label += ": exactly 0";
  }
}

// A band that reaches 0 has no lower end on a log axis: it goes on to the end of the axis, which is
// said. Called where all series stand, as these say where the axis ends.
void note_bands_to_the_end(PlotSpec& plot) {
  bool any = false;
  for (const Series& series : plot.series) {
    for (std::size_t n = 0; n < series.low.size(); ++n) {
      any = any || (series.low[n] <= 0 && series.high[n] > 0);
    }
  }
  if (!any) return;
  const double end = widgets::axis_range(plot, true).low;
  plot.y.low = end;
  plot.notes.push_back("a band down to the end of the axis, at " + widgets::short_number(end) +
                       ", reaches 0 or below, which has no place on it");
}

// The published rows of the encodings and methods that were measured, where one shift is theirs.
void add_published_shift(PlotSpec& plot, const ShiftQuantity& quantity,
                         const protocol::ShiftResult& result) {
  std::set<std::string> methods;
  for (const ShiftRow& row : result.rows) {
    if (row.by == kPublishedShiftBy) methods.insert(row.method);
  }
  std::vector<std::string> encodings;
  for (const protocol::ShiftExpectation& one : result.expected) encodings.push_back(one.encoding);
  bool any = false;
  for (const std::string& method : methods) {
    any = add_published(plot, quantity.published + method, encodings) || any;
  }
  if (any) {
    plot.notes.emplace_back(
        "pale, each by the shape of its points: published (TAPE, arXiv 2501.00712, Table 8; layers "
        "1, 2, 4, 8 counted from 1), not measured here: the order of the encodings and the zeros "
        "can be compared");
  }
}

PlotSpec by_layer_figure(const protocol::ShiftResult& result, const ModelNames& names,
                         const ShiftQuantity& quantity) {
  PlotSpec plot{.id = quantity.id, .title = quantity.title};
  plot.x.label = "layer", plot.x.of = widgets::Coordinate::layer;
  plot.y = {.label = quantity.label, .scale = Scale::log10};
  std::map<std::string, std::size_t> lines;
  std::map<std::int64_t, std::size_t> shifts;
  std::set<std::int64_t> layers;
  for (const ShiftRow& row : result.rows) {
    if (row.dtype == "f64") continue;  // the float64 rows tell rounding apart; the table has them
    const auto value = quantity.value(row);
    if (!value) continue;
    const std::string label =
        names.short_name(row.model) + " " + row.method + " by " + std::to_string(row.by);
    const std::size_t width = shifts.try_emplace(row.by, shifts.size()).first->second;
    const auto [line, added] = lines.try_emplace(label, plot.series.size());
    if (added) {
      plot.series.push_back({.label = label,
                             .color = names.color(row.model),
                             .width = 1.0 + 0.9 * double(width),
                             .dashed = row.method == "tokens"});
    }
    Series& series = plot.series[line->second];
    series.x.push_back(double(row.layer)), series.y.push_back(*value);
    add_ends(series, row.*quantity.low, row.*quantity.high);
    if (layers.insert(row.layer).second) {
      plot.x.ticks.push_back({double(row.layer), "L" + std::to_string(row.layer)});
    }
  }
  plot.notes.push_back(
      "colour and shape: model; full line: ids, dashed: tokens; thicker: larger shift; float32");
  if (std::string note = unmoved_note(plot); !note.empty()) plot.notes.push_back(std::move(note));
  name_zeros(plot);
  add_published_shift(plot, quantity, result);
  note_bands_to_the_end(plot);
  // Which may be of more layers than the models have.
  for (const Series& series : plot.series) {
    for (const double layer : series.x) {
      if (series.quiet && layers.insert(std::int64_t(layer)).second) {
        plot.x.ticks.push_back({layer, "L" + std::to_string(std::int64_t(layer))});
      }
    }
  }
  plot.notes.push_back(result.formula);
  for (const protocol::ShiftExpectation& one : result.expected) {
    plot.notes.push_back(names.short_name(one.model) +
                         " under shifted ids: " + shift_words(one.expected) + " (" + one.why + ")");
  }
  add_notes(plot.notes, result.provenance, names);
  return plot;
}

// Shifted ids: the largest attention difference of a layer against the shift, float32 beside
// float64.
PlotSpec by_shift_figure(const protocol::ShiftResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "shift_by", .title = "Shift stability: attention difference by shift"};
  plot.x = {.label = "shift of the ids (tokens)", .scale = Scale::log10};
  plot.y = {.label = "largest of a layer (1e-2)", .scale = Scale::log10};
  std::map<std::pair<std::string, std::string>, std::map<std::int64_t, double>> curves;
  for (const ShiftRow& row : result.rows) {
    if (row.method != "ids") continue;
    auto [at, added] = curves[{row.model, row.dtype}].try_emplace(row.by, row.attention_difference);
    if (!(at->second >= row.attention_difference)) at->second = row.attention_difference;
  }
  for (const auto& [key, points] : curves) {
    const auto& [model, dtype] = key;
    Series series{.label = names.short_name(model) + " " + dtype,
                  .color = names.color(model),
                  .dashed = dtype == "f64",
                  .points = widgets::PointShape::circle};
    for (const auto& [by, value] : points) {
      series.x.push_back(double(by)), series.y.push_back(value);
    }
    plot.series.push_back(std::move(series));
  }
  plot.notes.push_back(
      "dashed: float64; rounding grows with the shift, in float64 nine digits lower");
  if (std::string note = unmoved_note(plot); !note.empty()) plot.notes.push_back(std::move(note));
  name_zeros(plot);
  return plot;
}

// How many shifts a figure against the shift would have.
std::size_t shifts_of_ids(const protocol::ShiftResult& result) {
  std::set<std::int64_t> shifts;
  for (const ShiftRow& row : result.rows) {
    if (row.method == "ids") shifts.insert(row.by);
  }
  return shifts.size();
}

}  // namespace

std::string shift_words(const std::string& expected) {
  return expected == "refused" ? "moves, within its table" : expected;
}

PlotSpec shift_figure(const protocol::ShiftResult& result, const ModelNames& names) {
  return by_layer_figure(result, names, attention_quantity());
}

PlotSpec position_shift_figure(const protocol::ShiftResult& result, const ModelNames& names) {
  return by_layer_figure(result, names, position_quantity());
}

std::vector<PlotSpec> shift_figures(const protocol::ShiftResult& result, const ModelNames& names) {
  std::vector<PlotSpec> figures = {shift_figure(result, names)};
  const bool states = std::ranges::any_of(
      result.rows, [](const ShiftRow& row) { return row.position_difference.has_value(); });
  if (states) figures.push_back(position_shift_figure(result, names));
  if (shifts_of_ids(result) > 1) figures.push_back(by_shift_figure(result, names));
  return figures;
}

}  // namespace phasescope::app
