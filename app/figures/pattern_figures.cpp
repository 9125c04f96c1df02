#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "app/figures/distance_axis.h"
#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/figures/map_look.h"
#include "protocol/head_name.h"

namespace phasescope::app {

using protocol::PatternsResult;
using widgets::GridSpec;
using widgets::MapSpec;
using widgets::PlotSpec;
using widgets::Scale;
using widgets::Series;
using widgets::SeriesKind;
using widgets::short_number;
using widgets::ValueRange;

namespace {

// The tensors PREFIX.L by L.
std::map<std::int64_t, Grid> grids_named(std::span<const protocol::TensorRef> tensors,
                                         std::string_view prefix) {
  std::map<std::int64_t, Grid> found;
  for (const protocol::TensorRef& tensor : tensors) {
    if (!tensor.name.starts_with(prefix)) continue;
    found[std::stoll(tensor.name.substr(prefix.size()))] = grid_of(tensor);
  }
  return found;
}

void widen(ValueRange& range, const std::vector<float>& values, bool& any) {
  const ValueRange more = widgets::value_range(values);
  range = any ? ValueRange{std::min(range.low, more.low), std::max(range.high, more.high)} : more;
  any = true;
}

// Map `n` of a stack (n, rows, columns).
MapSpec map_in_stack(const Grid& stack, std::size_t n, ValueRange range) {
  MapSpec map{.rows = int(stack.shape.at(stack.shape.size() - 2)), .cols = int(stack.shape.back())};
  const std::size_t size = std::size_t(map.rows) * std::size_t(map.cols);
  map.values.assign(stack.values.begin() + std::ptrdiff_t(n * size),
                    stack.values.begin() + std::ptrdiff_t((n + 1) * size));
  map.range = range;
  map.colormap = colors_of(range);
  return map;
}

std::string range_note(ValueRange range) {
  return "one scale for all, " + short_number(range.low) + " .. " + short_number(range.high);
}

// A row a state: the mean over heads, then every head where the state has one of each.
GridSpec products_grid(const PatternsResult& result, const std::map<std::int64_t, Grid>& means,
                       const std::map<std::int64_t, Grid>& heads, const ModelNames& names) {
  GridSpec grid{.id = "pe_dot_heads_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": PE dot products"};
  bool any = false;
  ValueRange range;
  for (const auto* all : {&means, &heads}) {
    for (const auto& [layer, values] : *all) widen(range, values.values, any);
  }
  const auto map_of = [&](const Grid& stack, std::size_t n) {
    MapSpec map = map_in_stack(stack, n, range);
    name_positions(map, result);
    return map;
  };
  std::size_t columns = 0;
  for (const auto& [layer, stack] : heads) columns = std::max(columns, std::size_t(stack.shape[0]));
  grid.columns = columns == 0 ? int(means.size()) : int(columns) + 1;
  for (const auto& [layer, mean] : means) {
    grid.cells.push_back(
        {map_of(mean, 0), state_name(layer) + (columns > 0 ? ", mean of heads" : "")});
    for (std::size_t head = 0; head < columns; ++head) {
      const auto stack = heads.find(layer);
      const std::string caption = state_name(layer) + " H" + std::to_string(head);
      if (stack == heads.end()) {  // one state for all heads
        grid.cells.push_back({map_of(mean, 0), caption + " (the same)"});
      } else {
        grid.cells.push_back({map_of(stack->second, head), caption});
      }
    }
  }
  grid.notes = {result.products, sampling_note(result), range_note(range)};
  std::erase(grid.notes, "");
  return grid;
}

// f of every head over its own content (down) and bias (across).
GridSpec surfaces_grid(const PatternsResult& result, const std::map<std::int64_t, Grid>& surfaces,
                       const ModelNames& names) {
  GridSpec grid{.id = "surface_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": f of a content score and a bias"};
  bool any = false;
  ValueRange range;
  for (const auto& [layer, stack] : surfaces) widen(range, stack.values, any);
  for (const auto& [layer, stack] : surfaces) {
    grid.columns = int(stack.shape[0]);
    for (std::int64_t head = 0; head < stack.shape[0]; ++head) {
      MapSpec map = map_in_stack(stack, std::size_t(head), range);
      map.row_begin = result.surface_content.front(), map.row_end = result.surface_content.back();
      map.col_begin = result.surface_bias.front(), map.col_end = result.surface_bias.back();
      map.row_name = "content", map.col_name = "bias", map.value_label = "f (score)";
      std::string caption = protocol::name_of_head(layer, head);
      for (const protocol::SurfaceOfHead& one : result.surfaces) {
        if (one.layer != layer || one.head != head) continue;
        caption += "  both " + short_number(100 * one.interaction) + " %";
      }
      grid.cells.push_back({std::move(map), std::move(caption)});
    }
  }
  grid.notes = {"down: content score " + short_number(result.surface_content.front()) + " .. " +
                    short_number(result.surface_content.back()) + "; across: base bias " +
                    short_number(result.surface_bias.front()) + " .. " +
                    short_number(result.surface_bias.back()) +
                    "; the other heads' inputs at their means",
                "both: share of f's variance that is neither of content nor of bias alone",
                range_note(range)};
  return grid;
}

PlotSpec spectrum_figure(const PatternsResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "spectrum_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": spectrum of the position state"};
  plot.x = {.label = "frequency (radians a token)", .scale = Scale::log10};
  plot.y = {.label = "share of the power", .scale = Scale::log10};
  for (const protocol::PatternsLayer& layer : result.layers) {
    Series series{.label = state_name(layer.layer), .color = int(layer.layer)};
    series.x = result.spectrum_frequencies, series.y = layer.spectrum;
    plot.series.push_back(std::move(series));
  }
  plot.notes = {
      "share of the power between a frequency and the next one shown, over heads and "
      "channels; slower than one turn in the text is left out"};
  return plot;
}

PlotSpec angles_figure(const PatternsResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "angles_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": learned angles"};
  plot.x.label = "plane, from the fastest on";
  plot.y = {.label = "radians a token", .scale = Scale::log10};
  for (const protocol::LearnedAngles& one : result.angles) {
    Series series{.label = one.name, .kind = SeriesKind::scatter, .color = int(plot.series.size())};
    series.y = one.angles;
    for (std::size_t n = 0; n < one.angles.size(); ++n) series.x.push_back(double(n));
    plot.series.push_back(std::move(series));
  }
  plot.notes = {"absolute values; a plane that does not turn is not on the log axis"};
  return plot;
}

// Times the width of a text's lines that those of text `n` of so many have: each further one's are
// wider than those of the one before, so that dashed lines of one colour are told apart, up to
// three and a half times.
double width_of_text(std::size_t n, std::size_t texts) {
  if (n < 2) return 1;
  return 1 + std::min(0.75 * double(n - 1), 2.5 * double(n - 1) / double(texts - 2));
}

// "text 1, text 2": those whose lines are dashed, in the order of their widths.
std::string further_texts(std::span<const protocol::BiasRow> rows) {
  std::string names;
  for (const protocol::BiasRow& row : rows.subspan(1)) {
    names += (names.empty() ? "" : ", ") + row.text_name;
  }
  return names;
}

// One head's row: content, base and correction, the texts apart.
PlotSpec rows_figure(const PatternsResult& result, std::span<const protocol::BiasRow> rows,
                     const ModelNames& names) {
  const protocol::BiasRow& first = rows.front();
  const std::string head = protocol::name_of_head(first.layer, first.head);
  const std::string query = std::to_string(first.query);
  PlotSpec plot{
      .id = "row_" + names.file_name(result.model) + "_" + head + "_q" + query,
      .title = names.short_name(result.model) + " " + head + ": the keys of query " + query};
  plot.x = distance_axis(), plot.y.label = "part of the score";
  int text = 0;
  const auto add = [&](const char* what, const protocol::BiasRow& row,
                       const std::vector<double>& values, int color) {
    if (values.empty()) return;
    plot.series.push_back({.label = std::string(what) + ", " + row.text_name,
                           .x = {row.distances.begin(), row.distances.end()},
                           .y = values,
                           .color = color,
                           .width = (what == std::string_view("content") ? 0.8 : 1.6) *
                                    width_of_text(std::size_t(text), rows.size()),
                           .dashed = text > 0});
  };
  for (const protocol::BiasRow& row : rows) {
    add("content", row, row.content, 2);
    if (text == 0) {
      add("base bias", row, row.base, 0);
    }
    add(row.correction.empty() ? "bias" : "correction", row,
        row.correction.empty() ? row.positional : row.correction, 1);
    if (!row.correction.empty()) add("bias and correction", row, row.positional, 3);
    ++text;
  }
  plot.notes = {"the base bias is that of every text; CAPE (arXiv 2405.14722), Figure 1"};
  if (const std::string further = further_texts(rows); !further.empty()) {
    plot.notes.push_back("dashed, each wider than the one before: " + further);
  }
  for (const protocol::AdaptiveBiasOfHead& one : result.adaptive) {
    if (one.layer != first.layer || one.head != first.head || one.query != first.query) continue;
    plot.notes.push_back((one.kind.empty() ? one.why : one.kind) + ": slope in ln(distance) " +
                         with_ends(one.slope) + ", " + words_of(one.slope));
  }
  return plot;
}

// Every head of a layer: mean over texts, band of a standard deviation.
PlotSpec variation_figure(const PatternsResult& result, std::int64_t layer, std::int64_t query,
                          const ModelNames& names) {
  PlotSpec plot{.id = "variation_" + names.file_name(result.model) + "_L" + std::to_string(layer) +
                      "_q" + std::to_string(query),
                .title = names.short_name(result.model) + " L" + std::to_string(layer) +
                         ": bias of query " + std::to_string(query) + " over texts"};
  plot.x = log_distance_axis();
  plot.y.label = "bias added to the score";
  for (const protocol::AdaptiveBiasOfHead& one : result.adaptive) {
    if (one.layer != layer || one.query != query) continue;
    Series series{
        .label = "H" + std::to_string(one.head) + (one.kind.empty() ? "" : ": ") + one.kind,
        .x = on_log_axis(one.distances),
        .y = one.mean,
        .color = int(one.head)};
    for (std::size_t n = 0; n < one.mean.size(); ++n) {
      series.low.push_back(one.mean[n] - one.sd[n]);
      series.high.push_back(one.mean[n] + one.sd[n]);
    }
    plot.series.push_back(std::move(series));
    plot.notes.push_back("H" + std::to_string(one.head) + ": slope in ln(distance) " +
                         with_ends(one.slope) + ", " + words_of(one.slope) +
                         "; variance over texts " + short_number(one.over_contexts) +
                         ", over distance " + short_number(one.over_distance));
  }
  plot.notes.emplace_back(
      "band: one standard deviation over texts; local and anti-local where the "
      "95 % interval of the slope leaves out 0");
  for (const protocol::AdaptiveBiasOfHead& one : result.adaptive) {
    if (one.layer != layer || one.query != query || one.why.empty()) continue;
    plot.notes.push_back(one.why);
    break;
  }
  return plot;
}

void add_against_figures(const PatternsResult& result, const std::map<std::int64_t, Grid>& own,
                         const std::map<std::int64_t, Grid>& other, const ModelNames& names,
                         std::vector<GroupedFigure>& figures) {
  ValueRange range, differences;
  bool any = false, any_difference = false;
  for (const auto* all : {&own, &other}) {
    for (const auto& [layer, grid] : *all) widen(range, grid.values, any);
  }
  std::map<std::int64_t, Grid> difference;
  for (const auto& [layer, grid] : own) {
    // A state that nothing updates is that of every layer.
    if (other.empty()) continue;
    const auto found = other.find(layer);
    const Grid& with = found == other.end() ? other.rbegin()->second : found->second;
    Grid& less = difference[layer] = grid;
    for (std::size_t n = 0; n < less.values.size(); ++n) less.values[n] -= with.values[n];
    widen(differences, less.values, any_difference);
  }
  PatternsResult beside = result;
  beside.model = result.against;
  for (const auto& [layer, grid] : other) {
    figures.push_back({"against", layer, pe_dot_figure(beside, layer, grid, names, range)});
  }
  for (const auto& [layer, grid] : difference) {
    PlotSpec plot = pe_dot_figure(result, layer, grid, names, differences);
    plot.id = pe_dot_id(names.file_name(result.model) + "_less_" + names.file_name(result.against),
                        layer);
    plot.title = names.short_name(result.model) + " - " + names.short_name(result.against) +
                 ": PE dot products, " + state_name(layer);
    plot.map->value_label = "difference of G";
    figures.push_back({"against", layer, std::move(plot)});
  }
}

// "layer 1" or "layers 0..3, 5".
std::string in_words(const std::string& layers) {
  const bool one = layers.find_first_not_of("0123456789") == std::string::npos;
  return (one ? "layer " : "layers ") + layers;
}

// "plane 4 stays" or "planes 0, 5-9 stay": those of frequency 0.
std::string still_planes(const std::vector<double>& frequencies) {
  std::string text;
  bool several = false;
  for (std::size_t n = 0; n < frequencies.size(); ++n) {
    if (frequencies[n] != 0) continue;
    std::size_t last = n;
    while (last + 1 < frequencies.size() && frequencies[last + 1] == 0) ++last;
    several = several || last > n || !text.empty();
    text += (text.empty() ? "" : ", ") + std::to_string(n);
    if (last > n) text += "-" + std::to_string(last);
    n = last;
  }
  return several ? "planes " + text + " stay" : "plane " + text + " stays";
}

// 0 has no place on a log axis: a line before the first plane that stays says which do.
void mark_still_planes(const std::vector<double>& frequencies, const std::string& layers,
                       PlotSpec& plot) {
  const auto first = std::ranges::find(frequencies, 0.0);
  if (first == frequencies.end()) return;
  plot.markers.push_back({.at = std::max(0.0, double(first - frequencies.begin()) - 0.5),
                          .label = layers + ": " + still_planes(frequencies) + " (0)",
                          .color = plot.series.back().color});
}

// Groups of layers may turn by the same frequencies: the points of those drawn first stand out
// around the later ones, so that none hides another.
void draw_around_each_other(std::vector<Series>& series) {
  if (series.size() < 2) return;
  constexpr double kLeast = 2.5, kMost = 7.5, kStep = 1.8;
  const double step = std::min(kStep, (kMost - kLeast) / double(series.size() - 1));
  for (std::size_t n = 0; n < series.size(); ++n) {
    series[n].sizes.assign(series[n].y.size(), kLeast + step * double(series.size() - 1 - n));
  }
}

}  // namespace

std::string words_of(const protocol::RopePlanRow& row) {
  std::string words = "sees " + row.sees + "; " + row.encoding;
  if (!row.channels.empty()) words += ", " + row.channels + " channels";
  if (!row.axes.empty()) words += ", planes turn by " + row.axes;
  if (row.magnitude != 1) words += "; q and k times " + short_number(row.magnitude);
  if (!row.norm.empty()) words += "; norm of q and k: " + row.norm;
  if (!row.temperature.empty()) words += "; queries times " + row.temperature;
  // Both are equal up to the rounding of 16 bits in what was neither changed nor mistaken.
  constexpr double kRounding = 0.005;
  for (const auto& [difference, whose] :
       {std::pair{row.stored_difference, "the file stores"},
        std::pair{row.library_difference, "the file's configuration says"}}) {
    if (!difference || *difference <= kRounding) continue;
    words += std::string("; the frequencies that ") + whose + " differ";
    if (std::isfinite(*difference)) words += " by up to " + short_number(100 * *difference) + " %";
  }
  return words;
}

std::optional<PlotSpec> rope_plan_figure(const protocol::LoadReport& report,
                                         const ModelNames& names) {
  const std::string& model = report.model.name;
  PlotSpec plot{.id = "rope_plan_" + names.file_name(model),
                .title = names.short_name(model) + ": rope plan by layers"};
  plot.x.label = "plane";
  plot.y = {.label = "radians a token", .scale = Scale::log10};
  for (const protocol::RopePlanRow& row : report.rope_plan) {
    const std::string layers = in_words(row.layers);
    plot.notes.push_back(layers + ": " + words_of(row));
    if (row.frequencies.empty()) continue;
    Series series{.label = layers,
                  .kind = SeriesKind::scatter,
                  .y = row.frequencies,
                  .color = int(plot.series.size())};
    for (std::size_t n = 0; n < row.frequencies.size(); ++n) series.x.push_back(double(n));
    plot.series.push_back(std::move(series));
    mark_still_planes(row.frequencies, layers, plot);
  }
  if (plot.series.empty()) return std::nullopt;
  draw_around_each_other(plot.series);
  return plot;
}

std::vector<GridSpec> grids_of(const PatternsResult& result,
                               std::span<const protocol::TensorRef> tensors,
                               const ModelNames& names) {
  std::vector<GridSpec> grids;
  const auto means = grids_named(tensors, "pe_dot."), heads = grids_named(tensors, "pe_dot_heads.");
  if (means.size() > 1 || !heads.empty()) {
    grids.push_back(products_grid(result, means, heads, names));
  }
  const auto surfaces = grids_named(tensors, "surface.");
  if (!surfaces.empty()) grids.push_back(surfaces_grid(result, surfaces, names));
  return grids;
}

std::vector<GroupedFigure> more_figures_of(const PatternsResult& result,
                                           std::span<const protocol::TensorRef> tensors,
                                           const ModelNames& names) {
  std::vector<GroupedFigure> figures;
  if (!result.layers.empty() && !result.spectrum_frequencies.empty()) {
    figures.push_back({"spectrum", -1, spectrum_figure(result, names)});
  }
  if (!result.angles.empty()) figures.push_back({"angles", -1, angles_figure(result, names)});
  if (!result.against.empty()) {
    add_against_figures(result, grids_named(tensors, "pe_dot."),
                        grids_named(tensors, "against.pe_dot."), names, figures);
  }
  std::map<std::tuple<std::int64_t, std::int64_t>, bool> variations;  // by layer and query
  for (const auto& one : result.adaptive) variations[{one.layer, one.query}] = true;
  for (const auto& [key, unused] : variations) {
    const auto& [layer, query] = key;
    figures.push_back(
        {"variation over texts", layer, variation_figure(result, layer, query, names)});
  }
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<protocol::BiasRow>>
      rows;
  for (const auto& row : result.rows) rows[{row.layer, row.head, row.query}].push_back(row);
  for (const auto& [key, texts] : rows) {
    figures.push_back({"rows of queries", std::get<0>(key), rows_figure(result, texts, names)});
  }
  return figures;
}

}  // namespace phasescope::app
