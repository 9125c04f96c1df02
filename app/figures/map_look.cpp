#include "app/figures/map_look.h"

#include <algorithm>
#include <cmath>

#include "formats/error.h"

namespace phasescope::app {

using widgets::Colormap;
using widgets::MapSpec;
using widgets::ValueRange;

namespace {

constexpr double kThinShare = 0.1, kThinValue = 0.1;

bool is_weights(const MapSpec& map) { return map.colormap == Colormap::weights; }

// The range of the cells that do not hold key 0 (others share one with it where keys are pooled),
// or of all where there are no others.
ValueRange range_of(const MapSpec& map, bool without_first) {
  if (!without_first || map.col_begin > 0 || map.cols < 2) return widgets::value_range(map.values);
  std::vector<float> values;
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    if (i % static_cast<std::size_t>(map.cols) != 0) values.push_back(map.values[i]);
  }
  return widgets::value_range(values);
}

}  // namespace

Colormap colors_of(ValueRange range) {
  return range.low < 0 && range.high > 0 ? Colormap::signed_values : Colormap::viridis;
}

void check_look(const MapLook& look, const std::string& of) {
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) throw formats::bad_usage(why, option);
  };
  const bool log = look.scale == "log", may_be_log = look.scale != "linear";
  refuse(may_be_log && of != "weight", "--scale", "weights alone have a log scale");
  refuse(look.decades != MapLook{}.decades && !may_be_log, "--decades",
         "a linear scale has no decades: --scale log has");
  refuse(log && look.low, "--low", "a log scale has its lower end from --decades");
  refuse(look.low && look.high && *look.low >= *look.high, "--low",
         "the lower end of the colours lies below the upper one");
}

bool pools(const protocol::MapResult& map) {
  return map.row_end - map.row_begin > map.height || map.column_end - map.column_begin > map.width;
}

bool is_thin(const MapSpec& map) {
  const double high = widgets::value_range(map.values).high;
  if (high < kThinValue) return high > 0;  // on 0 .. 1 nothing of it would be seen
  std::size_t known = 0, large = 0;
  for (const float value : map.values) {
    if (!std::isfinite(value)) continue;
    ++known;
    large += value >= kThinValue * high;
  }
  return static_cast<double>(large) < kThinShare * static_cast<double>(known);
}

void apply_look(MapSpec& map, const MapLook& look) {
  const bool weights = is_weights(map);
  const bool log = weights && (look.scale == "log" || (look.scale != "linear" && is_thin(map)));
  map.log_decades = log ? std::max(1, static_cast<int>(look.decades)) : 0;
  // Weights are drawn on 0 .. 1, so that two pictures compare, until something else is chosen.
  if (look.leave_out_first || !weights) {
    const ValueRange fitted = range_of(map, look.leave_out_first);
    map.range = weights ? ValueRange{0, fitted.high > 0 ? fitted.high : 1} : fitted;
  }
  const ValueRange chosen{look.low.value_or(map.range.low), look.high.value_or(map.range.high)};
  if (chosen.high > chosen.low) map.range = chosen;  // other ends are none
  if (!(map.range.high > map.range.low)) map.range.high = map.range.low + 1;
  if (!weights) map.colormap = colors_of(map.range);
}

void apply_look(widgets::PlotSpec& plot, const MapLook& look) {
  apply_look(*plot.map, look);
  std::string& note = plot.notes.back() = widgets::scale_note(*plot.map);
  if (const std::string clipped = clipping_note(*plot.map, look); !clipped.empty()) {
    note += "; " + clipped;
  }
}

MapLook common_look(const MapLook& look, MapSpec a, MapSpec b) {
  MapLook common = look;
  if (common.scale != "log" && common.scale != "linear") {
    common.scale = is_thin(a) || is_thin(b) ? "log" : "linear";
  }
  apply_look(a, common), apply_look(b, common);
  common.low = std::min(a.range.low, b.range.low);
  common.high = std::max(a.range.high, b.range.high);
  return common;
}

std::string clipping_note(const MapSpec& map, const MapLook& look) {
  const ValueRange range = drawn_range(map.colormap, map.range);
  const double low =
      map.log_decades > 0 ? range.high * std::pow(10.0, -map.log_decades) : range.low;
  std::size_t below = 0, above = 0;
  for (const float value : map.values) {
    if (!std::isfinite(value)) continue;
    below += value<low, above += value> range.high;
  }
  const auto cells = [](std::size_t n) {
    return std::to_string(n) + (n == 1 ? " cell " : " cells ");
  };
  std::string note;
  if (below > 0) note = cells(below) + "below " + widgets::short_number(low);
  if (above > 0) {
    note +=
        (note.empty() ? "" : " and ") + cells(above) + "above " + widgets::short_number(range.high);
  }
  if (!note.empty()) {
    note += below + above == 1 ? " has the colour of the end" : " have the colours of the ends";
  }
  if (look.leave_out_first) {
    note += std::string(note.empty() ? "" : "; ") + "key 0 left out of the range";
  }
  return note;
}

}  // namespace phasescope::app
