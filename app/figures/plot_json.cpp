#include "app/figures/plot_json.h"

#include "protocol/json_form.h"

namespace phasescope::app {

using nlohmann::json;
using protocol::to_json_form;
using widgets::AxisSpec;
using widgets::AxisTick;
using widgets::MapSpec;
using widgets::Marker;
using widgets::PlotSpec;
using widgets::PointShape;
using widgets::Series;

namespace {

constexpr const char* kKinds[] = {"line", "bars", "histogram", "scatter"};
constexpr const char* kShapes[] = {"none",    "circle", "square", "triangle",
                                   "diamond", "wedge",  "cross"};

json json_of(const AxisSpec& axis) {
  json out{{"label", axis.label},
           {"scale", axis.scale == widgets::Scale::log10 ? "log10" : "linear"}};
  if (axis.low) out["low"] = to_json_form(*axis.low);
  if (axis.high) out["high"] = to_json_form(*axis.high);
  for (const AxisTick& tick : axis.ticks)
    out["ticks"].push_back({{"at", to_json_form(tick.at)}, {"label", tick.label}});
  return out;
}

json json_of(const Series& series) {
  json out{{"label", series.label},           {"kind", kKinds[static_cast<int>(series.kind)]},
           {"x", to_json_form(series.x)},     {"y", to_json_form(series.y)},
           {"low", to_json_form(series.low)}, {"high", to_json_form(series.high)},
           {"color", series.color},           {"width", series.width},
           {"dashed", series.dashed},         {"quiet", series.quiet}};
  if (series.points != PointShape::none) out["points"] = kShapes[static_cast<int>(series.points)];
  return out;
}

json json_of(const Marker& marker) {
  json out{{"at", to_json_form(marker.at)},
           {"vertical", marker.vertical},
           {"label", marker.label},
           {"color", marker.color}};
  if (marker.beyond) out["beyond"] = true;
  return out;
}

}  // namespace

json json_of(const MapSpec& map) {
  const double row_end = map.row_end > 0 ? map.row_end : map.rows;
  const double col_end = map.col_end > 0 ? map.col_end : map.cols;
  json out{{"rows", map.rows},
           {"cols", map.cols},
           {"query_range", {map.row_begin, row_end}},
           {"key_range", {map.col_begin, col_end}},
           {"colormap", widgets::name_of(map.colormap)},
           {"range", {to_json_form(map.range.low), to_json_form(map.range.high)}},
           {"value_label", map.value_label},
           {"log_decades", map.log_decades},
           {"row_name", map.row_name},
           {"col_name", map.col_name},
           {"samples", protocol::to_json_form(map.samples)},
           {"values", to_json_form(map.values)}};
  if (!map.margin.empty())
    out["margin"] = {{"name", map.margin_name}, {"values", to_json_form(map.margin)}};
  return out;
}

json json_of(const PlotSpec& plot) {
  json out{{"id", plot.id},        {"title", plot.title},     {"x", json_of(plot.x)},
           {"y", json_of(plot.y)}, {"series", json::array()}, {"markers", json::array()},
           {"notes", plot.notes},  {"legend", plot.legend}};
  for (const Series& series : plot.series) out["series"].push_back(json_of(series));
  for (const Marker& marker : plot.markers) out["markers"].push_back(json_of(marker));
  if (plot.map) out["map"] = json_of(*plot.map);
  return out;
}

json json_of(const widgets::GridSpec& grid) {
  json out{
      {"id", grid.id}, {"title", grid.title}, {"columns", grid.columns}, {"notes", grid.notes}};
  for (const widgets::GridCell& cell : grid.cells) {
    json& one = out["cells"].emplace_back(json{{"caption", cell.caption}});
    if (cell.plot) {
      one["plot"] = json_of(*cell.plot);
    } else {
      one["map"] = json_of(cell.map);
    }
  }
  return out;
}

}  // namespace phasescope::app
