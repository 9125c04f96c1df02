#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/figures/figures.h"
#include "app/figures/map_look.h"
#include "formats/error.h"
#include "formats/sha256.h"
#include "protocol/head_name.h"
#include "protocol/headings.h"
#include "protocol/sink_words.h"

namespace phasescope::app {

using protocol::HeadsResult;
using protocol::MapResult;
using widgets::Colormap;
using widgets::MapSpec;
using widgets::PlotSpec;
using widgets::short_number;

namespace {

// "cross." of a stack of an encoder-decoder; nothing of a model of one stack.
std::string prefix_of(const std::string& stack) { return stack.empty() ? "" : stack + "."; }

std::string head_name(std::int64_t layer, std::int64_t head) {
  if (head < 0) return "L" + std::to_string(layer) + " (mean of heads)";
  return protocol::name_of_head(layer, head);
}

MapSpec map_spec(const MapResult& result, const Grid& grid) {
  MapSpec map{.rows = int(result.height), .cols = int(result.width), .values = grid.values};
  map.row_begin = double(result.row_begin);
  map.row_end = double(result.row_end);
  map.col_begin = double(result.column_begin);
  map.col_end = double(result.column_end);
  map.value_label = result.of;
  // Weights keep one fixed scale, so that two pictures compare; scores have no natural one.
  if (result.of != "weight") {
    map.range = widgets::value_range(grid.values);
    map.colormap = colors_of(map.range);
  }
  return map;
}

void label_axes(PlotSpec& plot) {
  plot.x.label = "key (token)", plot.x.of = widgets::Coordinate::key;
  plot.y.label = "query (token)", plot.y.of = widgets::Coordinate::query;
  plot.legend = false;
}

// The same for the name of a file.
std::string head_id(const MapResult& result) {
  const std::string stack = result.stack.empty() ? "" : result.stack + "_";
  if (!result.heads.empty()) {
    // As many other heads are another file.
    std::string names;
    for (const std::string& name : result.heads) names += (names.empty() ? "" : "_") + name;
    constexpr std::size_t kLongest = 40;
    if (names.size() > kLongest) {
      names = std::to_string(result.heads.size()) + "_heads_" +
              formats::sha256_hex(std::string_view(names)).substr(0, 8);
    }
    return stack + "mean_of_" + names;
  }
  return stack + "L" + std::to_string(result.layer) + "H" +
         (result.head < 0 ? "mean" : std::to_string(result.head));
}

// "256 tokens", or "12 queries and 31 keys" where their numbers differ.
std::string tokens_of(const MapResult& result) {
  if (result.keys == 0 || result.keys == result.tokens) {
    return std::to_string(result.tokens) + " tokens";
  }
  return std::to_string(result.tokens) + " queries and " + std::to_string(result.keys) + " keys";
}

const protocol::HeadRow& row_of(const HeadsResult& result, std::int64_t layer, std::int64_t head) {
  for (const protocol::HeadRow& row : result.rows) {
    if (row.layer == layer && row.head == head) return row;
  }
  throw formats::internal_error("the heads result lacks a row", head_name(layer, head));
}

// "; n = 70 texts" where the values come from a corpus.
std::string samples_of(const HeadsResult& result, const std::string& metric) {
  if (!result.corpus || result.rows.empty()) return "";
  const auto found = result.rows.front().values.find(metric);
  if (found == result.rows.front().values.end()) return "";
  return "; means over n = " + std::to_string(found->second.n) + " " + found->second.unit;
}

std::string caption(const HeadsResult& result, std::int64_t layer, std::int64_t head,
                    const std::string& metric) {
  const auto& values = row_of(result, layer, head).values;
  const auto found = values.find(metric);
  const std::string name = head_name(layer, head);
  return found == values.end() ? name : name + "  " + short_number(found->second.mean);
}

std::string in_a_row(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

bool of_the_same_cells(const MapResult& a, const MapResult& b) {
  const auto cells = [](const MapResult& map) {
    return std::vector<std::int64_t>{map.row_begin,  map.row_end, map.column_begin,
                                     map.column_end, map.height,  map.width};
  };
  return cells(a) == cells(b) && a.of == b.of && a.pool == b.pool;
}

// So many heads are named in a title; of more their number is said.
constexpr std::size_t kMostInATitle = 4;

}  // namespace

std::string head_name(const MapResult& result) {
  if (result.heads.empty()) return prefix_of(result.stack) + head_name(result.layer, result.head);
  if (result.heads.size() <= kMostInATitle) return "mean of " + in_a_row(result.heads);
  return "mean of " + std::to_string(result.heads.size()) + " heads";
}

std::string difference_obstacle(const MapResult& a, const MapResult& b) {
  if (a.provenance.text_hash != b.provenance.text_hash) {
    return "A - B is not drawn: the two models read the text as different tokens.";
  }
  if (!of_the_same_cells(a, b)) {
    return "A - B is not drawn: the two maps are not of the same queries and keys.";
  }
  return "";
}

std::string heading_of(const protocol::MetricInfo& metric) {
  return protocol::with_unit(metric.title, metric.unit);
}

Grid grid_of(const protocol::TensorRef& tensor) {
  Grid grid{.shape = tensor.shape};
  if (tensor.dtype == "F64") {
    const auto values = tensor.values<double>();
    grid.values.assign(values.begin(), values.end());
  } else {
    const auto values = tensor.values<float>();
    grid.values.assign(values.begin(), values.end());
  }
  return grid;
}

std::vector<PlotSpec> plots_of(std::vector<GroupedFigure> figures) {
  std::vector<PlotSpec> plots;
  for (GroupedFigure& figure : figures) plots.push_back(std::move(figure.plot));
  return plots;
}

std::vector<GroupedFigure> without(const std::string& group, std::vector<GroupedFigure> figures) {
  std::erase_if(figures, [&](const GroupedFigure& figure) { return figure.group == group; });
  return figures;
}

std::string stack_note(const std::string& stack) {
  const std::string words = stack == "enc"     ? "encoder self-attention"
                            : stack == "cross" ? "the decoder's attention to the encoder"
                                               : "decoder self-attention";
  return "shown: " + words + " (" + stack + ".)";
}

std::vector<float> sink_of(std::span<const protocol::TensorRef> tensors) {
  const auto* found = protocol::find_tensor(tensors, "sink_profile");
  return found ? grid_of(*found).values : std::vector<float>{};
}

PlotSpec attention_map_figure(const MapResult& result, const Grid& map, const ModelNames& names,
                              const std::vector<float>& sink) {
  PlotSpec plot{
      .id = "map_" + names.file_name(result.model) + "_" + head_id(result),
      .title = names.short_name(result.model) + " " + head_name(result) + ": " + result.of};
  label_axes(plot);
  plot.map = map_spec(result, map);
  if (!sink.empty()) plot.map->margin = sink, plot.map->margin_name = "learned sink";
  plot.notes.push_back(
      "queries [" + std::to_string(result.row_begin) + ", " + std::to_string(result.row_end) +
      "), keys [" + std::to_string(result.column_begin) + ", " + std::to_string(result.column_end) +
      ") of " + tokens_of(result) + ", cells: " + result.pool);
  if (result.heads.size() > kMostInATitle) {
    plot.notes.push_back("mean of " + in_a_row(result.heads));
  }
  if (!result.stack.empty()) plot.notes.push_back(stack_note(result.stack));
  if (!std::isnan(result.learned_sink)) {
    plot.notes.push_back(std::string(protocol::kSinksBesideWeights) + "; the sink has " +
                         short_number(result.learned_sink) + " in the mean of these rows" +
                         (sink.empty() ? "" : ", and in each what the strip beside the map shows"));
  }
  for (std::string& weights : notes_of_weights(result.provenance.note)) {
    plot.notes.push_back(std::move(weights));
  }
  plot.notes.push_back(widgets::scale_note(*plot.map));
  return plot;
}

PlotSpec arcs_figure(const MapResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "arcs_" + names.file_name(result.model) + "_" + head_id(result),
                .title = names.short_name(result.model) + " " + head_name(result) +
                         ": largest weights of each query"};
  plot.x.low = 0, plot.x.high = 1, plot.x.ticks = {{0, "query"}, {1, "key"}};
  plot.y.label = "token";
  const auto down = [](std::int64_t token) { return -double(token); };
  // One series for each range of weights: a line has one width.
  struct Range {
    double from;
    const char* label;
    double width;
  };
  constexpr Range kRanges[] = {{0.5, "0.5 and above", 3},
                               {0.2, "0.2 to 0.5", 2},
                               {0.05, "0.05 to 0.2", 1},
                               {0, "less", 0.5}};
  std::int64_t first = result.row_begin, last = result.row_begin;
  for (const Range& range : kRanges) {
    widgets::Series series{.label = range.label, .width = range.width};
    series.color = int(plot.series.size());
    for (const protocol::TopKeys& top : result.top) {
      for (std::size_t n = 0; n < top.keys.size(); ++n) {
        const auto* found = std::ranges::find_if(
            kRanges, [&](const Range& one) { return top.weights[n] >= one.from; });
        if (found != &range) continue;
        series.x.insert(series.x.end(), {0, 1, std::nan("")});
        series.y.insert(series.y.end(), {down(top.query), down(top.keys[n]), std::nan("")});
        first = std::min({first, top.query, top.keys[n]});
        last = std::max({last, top.query, top.keys[n]});
      }
    }
    plot.series.push_back(std::move(series));
  }
  for (const widgets::AxisTick& tick :
       widgets::nice_ticks(double(first), double(last), widgets::Scale::linear)) {
    plot.y.ticks.push_back({-tick.at, tick.label});
  }
  plot.notes = {"queries [" + std::to_string(result.row_begin) + ", " +
                std::to_string(result.row_end) + ") of " + tokens_of(result)};
  return plot;
}

PlotSpec map_difference_figure(const MapResult& a, const Grid& map_a, const MapResult& b,
                               const Grid& map_b, const ModelNames& names) {
  if (map_a.values.size() != map_b.values.size()) {
    throw formats::internal_error("two maps of different sizes have no difference");
  }
  Grid difference = map_a;
  for (std::size_t i = 0; i < difference.values.size(); ++i) {
    const bool masked =
        map_a.values[i] == widgets::kMaskedCell || map_b.values[i] == widgets::kMaskedCell;
    difference.values[i] = masked ? widgets::kMaskedCell : map_a.values[i] - map_b.values[i];
  }
  PlotSpec plot = attention_map_figure(a, difference, names);
  plot.id =
      "difference_" + names.file_name(a.model) + "_" + names.file_name(b.model) + "_" + head_id(a);
  plot.title = names.short_name(a.model) + " " + head_name(a) + " - " + names.short_name(b.model) +
               " " + head_name(b) + ": " + a.of;
  plot.map->colormap = Colormap::signed_values;
  plot.map->range = widgets::value_range(difference.values);
  plot.map->value_label = a.of + " A - B";
  plot.notes.back() = widgets::scale_note(*plot.map);
  // A difference of means is the mean difference; of maxima it is no maximum.
  if (pools(a) && a.pool == "max") {
    plot.notes.back() +=
        "; a cell is A's largest of several pairs less B's, not the largest difference";
  }
  return plot;
}

widgets::GridSpec head_grid_figure(const HeadsResult& result, const Grid& thumbnails,
                                   const std::string& metric, const ModelNames& names) {
  widgets::GridSpec grid{.id = "heads_" + names.file_name(result.model),
                         .title = names.short_name(result.model) + ": every head",
                         .columns = int(result.heads)};
  const int side = int(thumbnails.shape.at(2));
  const std::size_t cell_size = std::size_t(side) * std::size_t(side);
  for (std::int64_t layer = 0; layer < result.layers; ++layer) {
    // Where some were chosen, the others have no rows.
    const bool chosen = std::ranges::count(result.rows, layer, &protocol::HeadRow::layer) > 0;
    if (!chosen && !result.rows.empty()) continue;
    for (std::int64_t head = 0; head < result.heads; ++head) {
      const auto* begin =
          thumbnails.values.data() + std::size_t(layer * result.heads + head) * cell_size;
      MapSpec map{.rows = side, .cols = side, .values = {begin, begin + cell_size}};
      map.value_label = "weight";
      grid.cells.push_back({std::move(map), caption(result, layer, head, metric)});
    }
  }
  if (!result.stack.empty()) grid.notes.push_back(stack_note(result.stack));
  grid.notes.push_back("layers down, heads across; weights 0 .. 1, cells: max; " +
                       widgets::marks_text(widgets::marks_of(thumbnails.values)));
  for (const protocol::MetricInfo& info : result.metrics) {
    if (info.key == metric) grid.notes.push_back(info.title + " = " + info.formula);
  }
  return grid;
}

namespace {

// The axes of a table of heads: a tick in the middle of each layer's row and each head's column.
void label_head_axes(PlotSpec& plot, std::int64_t layers, std::int64_t heads) {
  plot.x.label = "head", plot.x.of = widgets::Coordinate::head;
  plot.y.label = "layer", plot.y.of = widgets::Coordinate::layer;
  plot.legend = false;
  for (std::int64_t h = 0; h < heads; ++h) {
    plot.x.ticks.push_back({double(h) + 0.5, "H" + std::to_string(h)});
  }
  for (std::int64_t l = 0; l < layers; ++l) {
    plot.y.ticks.push_back({double(l) + 0.5, "L" + std::to_string(l)});
  }
}

}  // namespace

PlotSpec metric_map_figure(const HeadsResult& result, const std::string& metric,
                           const ModelNames& names) {
  const auto info = std::ranges::find(result.metrics, metric, &protocol::MetricInfo::key);
  const bool known = info != result.metrics.end();
  PlotSpec plot{.id = "metric_" + metric + "_" + names.file_name(result.model),
                .title = names.short_name(result.model) + ": " + (known ? info->title : metric)};
  label_head_axes(plot, result.layers, result.heads);
  MapSpec map{.rows = int(result.layers), .cols = int(result.heads)};
  map.row_name = "layer", map.col_name = "head";
  map.values.assign(std::size_t(result.layers * result.heads), std::nanf(""));
  for (const protocol::HeadRow& row : result.rows) {
    const auto found = row.values.find(metric);
    if (found == row.values.end()) continue;
    map.values[std::size_t(row.layer * result.heads + row.head)] = float(found->second.mean);
  }
  map.colormap = Colormap::viridis;
  map.range = widgets::value_range(map.values);
  map.value_label = known ? heading_of(*info) : metric;
  if (known) plot.notes.push_back(info->title + " = " + info->formula);
  if (!result.stack.empty()) plot.notes.push_back(stack_note(result.stack));
  plot.notes.push_back("scale " + short_number(map.range.low) + " .. " +
                       short_number(map.range.high) + samples_of(result, metric));
  plot.map = std::move(map);
  return plot;
}

std::string sampling_note(const protocol::PatternsResult& result) {
  const auto shown = static_cast<std::int64_t>(result.positions.size());
  const std::int64_t all = std::max(result.position_count, shown);
  if (shown == 0) return "";
  if (shown == all) return "G shows all " + std::to_string(all) + " positions";
  const std::string of = std::to_string(shown) + " of " + std::to_string(all) + " positions";
  if (all % shown != 0) return "G shows " + of + ", evenly over them";
  return "G shows " + of + ", one of every " + std::to_string(all / shown);
}

std::string state_name(std::int64_t layer) {
  return layer == 0 ? "start" : "after L" + std::to_string(layer - 1);
}

std::string pe_dot_id(const std::string& model, std::int64_t layer) {
  std::string state = state_name(layer);
  std::ranges::replace(state, ' ', '_');
  return "pe_dot_" + model + "_" + state;
}

void name_positions(MapSpec& map, const protocol::PatternsResult& result) {
  map.row_name = "position i", map.col_name = "position j";
  map.value_label = "PE dot product G";
  if (result.positions.empty()) return;
  map.row_end = map.col_end = double(std::max(result.position_count, result.positions.back() + 1));
  map.samples.assign(result.positions.begin(), result.positions.end());
}

PlotSpec pe_dot_figure(const protocol::PatternsResult& result, std::int64_t layer, const Grid& grid,
                       const ModelNames& names, std::optional<widgets::ValueRange> range) {
  PlotSpec plot{
      .id = pe_dot_id(names.file_name(result.model), layer),
      .title = names.short_name(result.model) + ": PE dot products, " + state_name(layer)};
  plot.x.label = "position j", plot.x.of = widgets::Coordinate::position;
  plot.y.label = "position i", plot.y.of = widgets::Coordinate::position;
  plot.legend = false;
  MapSpec map{.rows = int(grid.shape.at(0)), .cols = int(grid.shape.at(1)), .values = grid.values};
  name_positions(map, result);
  map.range = range.value_or(widgets::value_range(grid.values));
  map.colormap = colors_of(map.range);
  plot.notes = {result.products, sampling_note(result), widgets::scale_note(map)};
  std::erase(plot.notes, "");
  plot.map = std::move(map);
  return plot;
}

std::string compared_id(const protocol::CompareResult& result, const ModelNames& names) {
  const std::string& stack = result.stack.empty() ? result.other_stack : result.stack;
  return names.file_name(result.a) + "_" + names.file_name(result.b) +
         (stack.empty() ? "" : "_" + stack);
}

PlotSpec divergence_figure(const protocol::CompareResult& result, const ModelNames& names) {
  PlotSpec plot{.id = "divergence_" + compared_id(result, names),
                .title = "Jensen-Shannon divergence, " + names.short_name(result.a) + " against " +
                         names.short_name(result.b)};
  std::int64_t layers = 0, heads = 0;
  for (const auto& head : result.heads) {
    layers = std::max(layers, head.layer + 1);
    heads = std::max(heads, head.head + 1);
  }
  label_head_axes(plot, layers, heads);
  MapSpec map{.rows = int(layers), .cols = int(heads)};
  map.row_name = "layer", map.col_name = "head";
  map.values.assign(std::size_t(layers * heads), std::nanf(""));
  for (const auto& head : result.heads) {
    map.values[std::size_t(head.layer * heads + head.head)] = float(head.js_divergence);
  }
  map.colormap = Colormap::viridis;
  map.range = {0, std::log(2.0)};
  map.value_label = "divergence (nats)";
  plot.notes.push_back("mean over queries, nats; 0 equal rows, ln 2 = 0.693 disjoint ones");
  if (!result.provenance.note.empty()) plot.notes.push_back(result.provenance.note);
  plot.map = std::move(map);
  return plot;
}

}  // namespace phasescope::app
