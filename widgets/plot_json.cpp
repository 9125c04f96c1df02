#include "widgets/plot_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace phasescope::widgets {
namespace {

using nlohmann::json;

json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument("expected a number but got " + value.dump());
}

template <class T>
json json_numbers(const std::vector<T>& values) {
  json list = json::array();
  for (T value : values) list.push_back(json_number(value));
  return list;
}

template <class T>
std::vector<T> numbers_of(const json& list) {
  std::vector<T> values;
  for (const json& value : list) values.push_back(static_cast<T>(number_of(value)));
  return values;
}

json json_of(const AxisSpec& axis) {
  json out{{"label", axis.label}, {"scale", axis.scale == Scale::log10 ? "log10" : "linear"}};
  if (axis.low) out["low"] = json_number(*axis.low);
  if (axis.high) out["high"] = json_number(*axis.high);
  for (const AxisTick& tick : axis.ticks)
    out["ticks"].push_back({{"at", json_number(tick.at)}, {"label", tick.label}});
  return out;
}

AxisSpec axis_of(const json& in) {
  AxisSpec axis{in.value("label", ""), Scale::linear, {}, {}, {}};
  if (in.value("scale", "linear") == "log10") axis.scale = Scale::log10;
  if (in.contains("low")) axis.low = number_of(in["low"]);
  if (in.contains("high")) axis.high = number_of(in["high"]);
  for (const json& tick : in.value("ticks", json::array()))
    axis.ticks.push_back({number_of(tick.at("at")), tick.value("label", "")});
  return axis;
}

constexpr const char* kKinds[] = {"line", "bars", "histogram", "scatter"};

SeriesKind kind_named(const std::string& name) {
  for (int i = 0; i < 4; ++i)
    if (name == kKinds[i]) return static_cast<SeriesKind>(i);
  throw std::invalid_argument("unknown series kind '" + name + "'");
}

constexpr const char* kShapes[] = {"none",    "circle", "square", "triangle",
                                   "diamond", "wedge",  "cross"};

PointShape shape_named(const std::string& name) {
  for (int i = 0; i < 7; ++i)
    if (name == kShapes[i]) return static_cast<PointShape>(i);
  throw std::invalid_argument("unknown shape of points '" + name + "'");
}

json json_of(const Series& series) {
  json out{{"label", series.label},           {"kind", kKinds[static_cast<int>(series.kind)]},
           {"x", json_numbers(series.x)},     {"y", json_numbers(series.y)},
           {"low", json_numbers(series.low)}, {"high", json_numbers(series.high)},
           {"color", series.color},           {"width", series.width},
           {"dashed", series.dashed},         {"quiet", series.quiet}};
  if (series.points != PointShape::none) out["points"] = kShapes[static_cast<int>(series.points)];
  return out;
}

Series series_of(const json& in) {
  Series series;
  series.label = in.value("label", "");
  series.kind = kind_named(in.value("kind", "line"));
  series.x = numbers_of<double>(in.value("x", json::array()));
  series.y = numbers_of<double>(in.value("y", json::array()));
  series.low = numbers_of<double>(in.value("low", json::array()));
  series.high = numbers_of<double>(in.value("high", json::array()));
  series.color = in.value("color", 0);
  series.width = in.value("width", 1.6);
  series.dashed = in.value("dashed", false);
  series.points = shape_named(in.value("points", "none"));
  series.quiet = in.value("quiet", false);
  return series;
}

MapSpec map_of(const json& in) {
  MapSpec map;
  map.rows = in.value("rows", 0);
  map.cols = in.value("cols", 0);
  map.values = numbers_of<float>(in.value("values", json::array()));
  if (map.rows < 0 || map.cols < 0 ||
      map.values.size() != static_cast<std::size_t>(map.rows) * map.cols)
    throw std::invalid_argument("the map's values are not rows * cols many");
  const json rows = in.at("query_range"), cols = in.at("key_range"), range = in.at("range");
  map.row_begin = number_of(rows.at(0)), map.row_end = number_of(rows.at(1));
  map.col_begin = number_of(cols.at(0)), map.col_end = number_of(cols.at(1));
  map.colormap = colormap_named(in.value("colormap", "weights"));
  map.range = {number_of(range.at(0)), number_of(range.at(1))};
  map.value_label = in.value("value_label", "");
  map.log_decades = in.value("log_decades", 0);
  return map;
}

json json_of(const Marker& marker) {
  return {{"at", json_number(marker.at)},
          {"vertical", marker.vertical},
          {"label", marker.label},
          {"color", marker.color}};
}

PlotSpec read_plot(const json& in) {
  PlotSpec plot;
  plot.id = in.value("id", "");
  plot.title = in.value("title", "");
  plot.x = axis_of(in.at("x"));
  plot.y = axis_of(in.at("y"));
  for (const json& series : in.value("series", json::array()))
    plot.series.push_back(series_of(series));
  for (const json& marker : in.value("markers", json::array()))
    plot.markers.push_back({number_of(marker.at("at")), marker.value("vertical", true),
                            marker.value("label", ""), marker.value("color", -1)});
  if (in.contains("map")) plot.map = map_of(in["map"]);
  plot.notes = in.value("notes", std::vector<std::string>{});
  plot.legend = in.value("legend", true);
  return plot;
}

}  // namespace

json json_of(const MapSpec& map) {
  const double row_end = map.row_end > 0 ? map.row_end : map.rows;
  const double col_end = map.col_end > 0 ? map.col_end : map.cols;
  return {{"rows", map.rows},
          {"cols", map.cols},
          {"query_range", {map.row_begin, row_end}},
          {"key_range", {map.col_begin, col_end}},
          {"colormap", name_of(map.colormap)},
          {"range", {json_number(map.range.low), json_number(map.range.high)}},
          {"value_label", map.value_label},
          {"log_decades", map.log_decades},
          {"values", json_numbers(map.values)}};
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

PlotSpec plot_of(const json& in) {
  try {
    return read_plot(in);
  } catch (const json::exception& error) {
    throw std::invalid_argument(std::string("this is not a figure: ") + error.what());
  }
}

}  // namespace phasescope::widgets
