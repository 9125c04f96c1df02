#include "widgets/plot_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace phasescope::widgets {
namespace {

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool positive_only = false;

  void add(double value) {
    if (!std::isfinite(value) || (positive_only && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void add(const std::vector<double>& values) {
    for (double value : values) add(value);
  }
  bool empty() const { return low > high; }
};

void add_vertical(Extent& extent, const Series& series) {
  extent.add(series.y);
  extent.add(series.low);
  extent.add(series.high);
  if (series.kind == SeriesKind::bars || series.kind == SeriesKind::histogram) extent.add(0.0);
}

void add_horizontal(Extent& extent, const Series& series) {
  extent.add(series.x);
  if (series.kind != SeriesKind::bars || series.x.size() < 2) return;
  const double half = std::abs(series.x[1] - series.x[0]) / 2;
  extent.add(series.x.front() - half);
  extent.add(series.x.back() + half);
}

Extent data_extent(const PlotSpec& plot, bool vertical) {
  Extent extent;
  extent.positive_only = (vertical ? plot.y : plot.x).scale == Scale::log10;
  for (const Series& series : plot.series) {
    vertical ? add_vertical(extent, series) : add_horizontal(extent, series);
  }
  for (const Marker& marker : plot.markers) {
    if (marker.vertical != vertical) extent.add(marker.at);
  }
  if (plot.map) {
    const MapSpec& map = *plot.map;
    extent.add(vertical ? map.row_begin : map.col_begin);
    extent.add(vertical ? (map.row_end > 0 ? map.row_end : map.rows)
                        : (map.col_end > 0 ? map.col_end : map.cols));
  }
  return extent;
}

// `pad` is the margin on either side, a part of the extent; none is put below a 0.
ValueRange widened(const Extent& extent, Scale scale, double pad) {
  if (extent.empty()) return scale == Scale::log10 ? ValueRange{1, 10} : ValueRange{0, 1};
  if (scale == Scale::log10) {
    const double grow = std::pow(extent.high / extent.low, pad);
    if (extent.high <= extent.low) return {extent.low / 2, extent.high * 2};
    return {extent.low / grow, extent.high * grow};
  }
  if (extent.high <= extent.low) {
    const double room = extent.low == 0 ? 1.0 : std::abs(extent.low) * 0.1;
    return {extent.low - room, extent.high + room};
  }
  const double margin = (extent.high - extent.low) * pad;
  return {extent.low - (extent.low == 0 ? 0.0 : margin), extent.high + margin};
}

double nice_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::vector<AxisTick> linear_ticks(double low, double high, int wanted) {
  std::vector<AxisTick> ticks;
  const double step = nice_step((high - low) / std::max(1, wanted));
  const double first = std::ceil(low / step - 1e-9);
  for (double k = first; k * step <= high + step * 1e-9; k += 1) {
    ticks.push_back({k * step, short_number(std::abs(k) < 1e-9 ? 0.0 : k * step)});
  }
  return ticks;
}

std::vector<AxisTick> log_ticks(double low, double high) {
  std::vector<AxisTick> ticks;
  const double decades = std::log10(high / low);
  const std::vector<double> parts = decades > 4     ? std::vector<double>{1}
                                    : decades > 1.3 ? std::vector<double>{1, 3}
                                                    : std::vector<double>{1, 2, 3, 5, 7};
  for (double power = std::floor(std::log10(low)); power <= std::ceil(std::log10(high)); ++power) {
    for (double part : parts) {
      const double at = part * std::pow(10.0, power);
      if (at >= low * 0.999 && at <= high * 1.001) ticks.push_back({at, short_number(at)});
    }
  }
  return ticks;
}

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> band_runs(const Series& series, Scale scale) {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  const std::size_t count = std::min({series.x.size(), series.low.size(), series.high.size()});
  bool open = false;
  for (std::size_t i = 0; i < count; ++i) {
    const bool known = std::isfinite(series.low[i]) && std::isfinite(series.high[i]) &&
                       (scale == Scale::linear || series.high[i] > 0);
    if (known && !open) runs.emplace_back(i, i);
    if (known) runs.back().second = i + 1;
    open = known;
  }
  return runs;
}

double drawn_low(double low, Scale scale, double axis_end) {
  return scale == Scale::log10 && low <= 0 ? axis_end : low;
}

BandEdges band_edges(const Series& series, std::pair<std::size_t, std::size_t> run, Scale x_scale,
                     Scale y_scale, double axis_end) {
  BandEdges edges;
  const auto add = [&](double x, double low, double high) {
    edges.x.push_back(x), edges.low.push_back(low), edges.high.push_back(high);
  };
  const auto half_way = [](double a, double b, Scale scale) {
    return scale == Scale::log10 ? std::sqrt(a * b) : (a + b) / 2;
  };
  const auto has_no_place = [&](double low) { return y_scale == Scale::log10 && low <= 0; };
  for (std::size_t i = run.first; i < run.second; ++i) {
    const double low = drawn_low(series.low[i], y_scale, axis_end);
    if (i > run.first && has_no_place(series.low[i]) != has_no_place(series.low[i - 1])) {
      const double x = half_way(series.x[i - 1], series.x[i], x_scale);
      const double high = half_way(series.high[i - 1], series.high[i], y_scale);
      add(x, edges.low.back(), high), add(x, low, high);
    }
    add(series.x[i], low, series.high[i]);
  }
  return edges;
}

std::string short_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == 0) return "0";
  char text[32];
  const double size = std::abs(value);
  if (size >= 1e-4 && size < 1e6) {
    std::snprintf(text, sizeof text, "%.4g", value);
    // %.4g turns 12345 into 1.234e+04; whole numbers of that size are read as they are.
    if (size >= 1e4) std::snprintf(text, sizeof text, "%.0f", value);
  } else {
    std::snprintf(text, sizeof text, "%.3g", value);
  }
  return text;
}

std::vector<AxisTick> nice_ticks(double low, double high, Scale scale, int wanted) {
  if (!(high > low) || !std::isfinite(low) || !std::isfinite(high)) return {};
  if (scale == Scale::log10) return low > 0 ? log_ticks(low, high) : std::vector<AxisTick>{};
  return linear_ticks(low, high, wanted);
}

ValueRange axis_range(const PlotSpec& plot, bool vertical) {
  const AxisSpec& axis = vertical ? plot.y : plot.x;
  const double pad = plot.map ? 0 : vertical ? 0.05 : 0.02;
  ValueRange range = widened(data_extent(plot, vertical), axis.scale, pad);
  const bool points = std::any_of(plot.series.begin(), plot.series.end(),
                                  [](const Series& s) { return s.kind == SeriesKind::scatter; });
  // Half of a point that stands at 0 would be cut off.
  if (points && axis.scale == Scale::linear && range.low == 0) {
    range.low = -pad * (range.high - range.low);
  }
  range.low = axis.low.value_or(range.low);
  range.high = axis.high.value_or(range.high);
  if (!(range.high > range.low)) range.high = range.low + 1;
  return range;
}

AxisRanges axis_ranges(const PlotSpec& plot, double width, double height) {
  AxisRanges ranges{axis_range(plot, false), axis_range(plot, true)};
  if (!plot.equal_axes || !(width > 0) || !(height > 0)) return ranges;
  const auto length = [](const ValueRange& range) { return range.high - range.low; };
  const double unit = std::max(length(ranges.x) / width, length(ranges.y) / height);  // a pixel's
  const auto widen = [&](ValueRange& range, double pixels) {
    const double more = (unit * pixels - length(range)) / 2;
    range.low -= more, range.high += more;
  };
  widen(ranges.x, width), widen(ranges.y, height);
  return ranges;
}

namespace {

double place(const MapSpec& map, int n, double begin, double step) {
  const auto at = static_cast<std::size_t>(n);
  return at < map.samples.size() ? map.samples[at] : begin + n * step;
}

}  // namespace

double row_place(const MapSpec& map, int row) {
  const double end = map.row_end > 0 ? map.row_end : map.rows;
  return place(map, row, map.row_begin, (end - map.row_begin) / std::max(1, map.rows));
}

double col_place(const MapSpec& map, int col) {
  const double end = map.col_end > 0 ? map.col_end : map.cols;
  return place(map, col, map.col_begin, (end - map.col_begin) / std::max(1, map.cols));
}

MapSpec margin_of(const MapSpec& map) {
  MapSpec strip;
  strip.rows = static_cast<int>(map.margin.size()), strip.cols = 1;
  strip.values = map.margin;
  strip.colormap = map.colormap, strip.range = map.range, strip.log_decades = map.log_decades;
  return strip;
}

double scale_place(const MapSpec& map, double value) {
  const ValueRange range = drawn_range(map.colormap, map.range);
  if (map.log_decades > 0) {
    return 1 + std::log10(std::max(value, 1e-300) / range.high) / map.log_decades;
  }
  return range.high > range.low ? (value - range.low) / (range.high - range.low) : 0.5;
}

Rgba cell_color(const MapSpec& map, double value) {
  if (value == kMaskedCell) return kMaskedColor;
  if (!std::isfinite(value)) return kNotFiniteColor;
  return color_at(map.colormap, scale_place(map, value));
}

std::string scale_text(const MapSpec& map) {
  const ValueRange range = drawn_range(map.colormap, map.range);
  if (map.log_decades > 0) {
    return "log, " + short_number(range.high * std::pow(10.0, -map.log_decades)) + " .. " +
           short_number(range.high);
  }
  return short_number(range.low) + " .. " + short_number(range.high);
}

CellMarks marks_of(const std::vector<float>& values) {
  CellMarks marks;
  for (float value : values) {
    if (value == kMaskedCell) {
      ++marks.masked;
    } else if (!std::isfinite(value)) {
      ++marks.not_finite;
    }
  }
  return marks;
}

std::string marks_text(const CellMarks& marks) {
  std::string text = marks.masked > 0 ? "grey: masked" : "";
  if (marks.not_finite == 0) return text;
  return text + (text.empty() ? "" : "; ") + "magenta: " + std::to_string(marks.not_finite) +
         (marks.not_finite == 1 ? " cell is" : " cells are") + " NaN or infinite";
}

std::string scale_note(const MapSpec& map) {
  const std::string marks = marks_text(marks_of(map.values));
  return "scale " + scale_text(map) + (marks.empty() ? "" : "; " + marks);
}

ValueRange value_range(const std::vector<float>& values) {
  Extent extent;
  for (float value : values) extent.add(value);
  return extent.empty() ? ValueRange{} : ValueRange{extent.low, extent.high};
}

}  // namespace phasescope::widgets
