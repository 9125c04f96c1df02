#include "app/figures/plot_json.h"

#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"

namespace phasescope::app {

using nlohmann::json;
using protocol::to_json_form;
using widgets::AxisSpec;
using widgets::MapSpec;
using widgets::Marker;
using widgets::PlotSpec;
using widgets::PointShape;
using widgets::Series;

namespace {

constexpr const char* kKinds[] = {"line", "bars", "histogram", "scatter"};
constexpr const char* kShapes[] = {"none",  "circle", "square",      "triangle",   "diamond",
                                   "wedge", "cross",  "open circle", "open square"};

// What files have of a figure: its parts with words for choices, and without what only a drawing
// needs. An optional that is empty has no key.
struct TickForm {
  double at = 0;
  std::string label;
  template <class V>
  void fields(V& v) {
    v("at", at), v("label", label);
  }
};

struct AxisForm {
  std::string label, scale;
  std::optional<double> low, high;
  std::optional<std::vector<TickForm>> ticks;
  template <class V>
  void fields(V& v) {
    v("label", label), v("scale", scale), v("low", low), v("high", high), v("ticks", ticks);
  }
};

AxisForm form_of(const AxisSpec& axis) {
  AxisForm form{axis.label,
                axis.scale == widgets::Scale::log10 ? "log10" : "linear",
                axis.low,
                axis.high,
                {}};
  if (axis.ticks.empty()) return form;
  form.ticks.emplace();
  for (const widgets::AxisTick& tick : axis.ticks) form.ticks->push_back({tick.at, tick.label});
  return form;
}

struct SeriesForm {
  std::string label, kind;
  std::vector<double> x, y, low, high;
  int color = 0;
  double width = 0;
  bool dashed = false, quiet = false;
  std::optional<std::string> points;
  template <class V>
  void fields(V& v) {
    v("label", label), v("kind", kind), v("x", x), v("y", y), v("low", low), v("high", high);
    v("color", color), v("width", width), v("dashed", dashed), v("quiet", quiet);
    v("points", points);
  }
};

SeriesForm form_of(const Series& series) {
  SeriesForm form{.label = series.label,
                  .kind = kKinds[static_cast<int>(series.kind)],
                  .x = series.x,
                  .y = series.y,
                  .low = series.low,
                  .high = series.high,
                  .color = series.color,
                  .width = series.width,
                  .dashed = series.dashed,
                  .quiet = series.quiet};
  if (series.points != PointShape::none) form.points = kShapes[static_cast<int>(series.points)];
  return form;
}

struct MarkerForm {
  double at = 0;
  bool vertical = true;
  std::string label;
  int color = 0;
  std::optional<bool> beyond;
  template <class V>
  void fields(V& v) {
    v("at", at), v("vertical", vertical), v("label", label), v("color", color);
    v("beyond", beyond);
  }
};

MarkerForm form_of(const Marker& marker) {
  MarkerForm form{marker.at, marker.vertical, marker.label, marker.color, {}};
  if (marker.beyond) form.beyond = true;
  return form;
}

struct MarginForm {
  std::string name;
  std::vector<float> values;
  template <class V>
  void fields(V& v) {
    v("name", name), v("values", values);
  }
};

// Ranges are [begin, end).
struct MapForm {
  int rows = 0, cols = 0;
  std::vector<double> query_range, key_range, range, samples;
  std::string colormap, value_label, row_name, col_name;
  int log_decades = 0;
  std::vector<float> values;
  std::optional<MarginForm> margin;
  template <class V>
  void fields(V& v) {
    v("rows", rows), v("cols", cols), v("query_range", query_range), v("key_range", key_range);
    v("colormap", colormap), v("range", range), v("value_label", value_label);
    v("log_decades", log_decades), v("row_name", row_name), v("col_name", col_name);
    v("samples", samples), v("values", values), v("margin", margin);
  }
};

MapForm form_of(const MapSpec& map) {
  MapForm form{.rows = map.rows,
               .cols = map.cols,
               .query_range = {map.row_begin, map.row_end > 0 ? map.row_end : map.rows},
               .key_range = {map.col_begin, map.col_end > 0 ? map.col_end : map.cols},
               .range = {map.range.low, map.range.high},
               .samples = map.samples,
               .colormap = widgets::name_of(map.colormap),
               .value_label = map.value_label,
               .row_name = map.row_name,
               .col_name = map.col_name,
               .log_decades = map.log_decades,
               .values = map.values};
  if (!map.margin.empty()) form.margin = {map.margin_name, map.margin};
  return form;
}

struct PlotForm {
  std::string id, title;
  AxisForm x, y;
  std::vector<SeriesForm> series;
  std::vector<MarkerForm> markers;
  std::vector<std::string> notes;
  bool legend = true;
  std::optional<bool> equal_axes;
  std::optional<MapForm> map;
  template <class V>
  void fields(V& v) {
    v("id", id), v("title", title), v("x", x), v("y", y), v("series", series);
    v("markers", markers), v("notes", notes), v("legend", legend);
    v("equal_axes", equal_axes), v("map", map);
  }
};

PlotForm form_of(const PlotSpec& plot) {
  PlotForm form{.id = plot.id,
                .title = plot.title,
                .x = form_of(plot.x),
                .y = form_of(plot.y),
                .notes = plot.notes,
                .legend = plot.legend};
  for (const Series& series : plot.series) form.series.push_back(form_of(series));
  for (const Marker& marker : plot.markers) form.markers.push_back(form_of(marker));
  if (plot.equal_axes) form.equal_axes = true;
  if (plot.map) form.map = form_of(*plot.map);
  return form;
}

struct CellForm {
  std::string caption;
  std::optional<PlotForm> plot;
  std::optional<MapForm> map;
  template <class V>
  void fields(V& v) {
    v("caption", caption), v("plot", plot), v("map", map);
  }
};

struct GridForm {
  std::string id, title;
  int columns = 1;
  std::vector<std::string> notes;
  std::optional<std::vector<CellForm>> cells;
  template <class V>
  void fields(V& v) {
    v("id", id), v("title", title), v("columns", columns), v("notes", notes), v("cells", cells);
  }
};

GridForm form_of(const widgets::GridSpec& grid) {
  GridForm form{grid.id, grid.title, grid.columns, grid.notes, {}};
  if (grid.cells.empty()) return form;
  form.cells.emplace();
  for (const widgets::GridCell& cell : grid.cells) {
    CellForm& one = form.cells->emplace_back(CellForm{.caption = cell.caption});
    if (cell.plot) {
      one.plot = form_of(*cell.plot);
    } else {
      one.map = form_of(cell.map);
    }
  }
  return form;
}

}  // namespace

json json_of(const MapSpec& map) { return to_json_form(form_of(map)); }
json json_of(const PlotSpec& plot) { return to_json_form(form_of(plot)); }
json json_of(const widgets::GridSpec& grid) { return to_json_form(form_of(grid)); }

}  // namespace phasescope::app
