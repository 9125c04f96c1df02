#include "widgets/plot_svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "widgets/map_colors.h"
#include "widgets/map_image.h"
#include "widgets/series_marks.h"
#include "widgets/svg_writer.h"

namespace phasescope::widgets {
namespace {

constexpr double kNoteSize = 10.5;
constexpr double kNoteLine = 15;
// The width of the strip beside a map, and its distance from the map.
constexpr double kMarginWidth = 12, kMarginGap = 6;

struct Frame {
  double left = 0, top = 0, width = 0, height = 0;
};

// Where a value lands on the page.
struct Axis {
  ValueRange range;
  Scale scale = Scale::linear;
  double begin = 0, end = 0;

  double operator()(double value) const {
    double t = (value - range.low) / (range.high - range.low);
    if (scale == Scale::log10) t = std::log(value / range.low) / std::log(range.high / range.low);
    return begin + t * (end - begin);
  }
};

struct Page {
  SvgWriter& svg;
  const PlotSpec& plot;
  Frame frame;
  Axis x, y;

  // Where the lower end of an interval is drawn.
  double low_end(double low) const { return y(drawn_low(low, y.scale, y.range.low)); }
};

// Filled, about as large as a circle of this radius; a wedge is a triangle that points down.
void draw_point(SvgWriter& svg, PointShape shape, double x, double y, const std::string& color,
                double r = 3.2) {
  switch (shape) {
    case PointShape::none:
      return;
    case PointShape::circle:
      return svg.circle(x, y, r, color);
    case PointShape::square:
      return svg.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r, color);
    case PointShape::triangle:
      return svg.polygon({{x, y - 1.3 * r}, {x + 1.2 * r, y + 0.9 * r}, {x - 1.2 * r, y + 0.9 * r}},
                         color, 1);
    case PointShape::diamond:
      return svg.polygon({{x, y - 1.4 * r}, {x + 1.2 * r, y}, {x, y + 1.4 * r}, {x - 1.2 * r, y}},
                         color, 1);
    case PointShape::wedge:
      return svg.polygon({{x, y + 1.3 * r}, {x + 1.2 * r, y - 0.9 * r}, {x - 1.2 * r, y - 0.9 * r}},
                         color, 1);
    case PointShape::cross:
      svg.line(x - r, y - r, x + r, y + r, color, 1.6);
      return svg.line(x - r, y + r, x + r, y - r, color, 1.6);
    case PointShape::open_circle:
    case PointShape::open_square:
      svg.marks({{x, y}}, shape, r, color);
  }
}

// Point `n` of a scatter; in its legend, where there is no n, one of the usual size.
void draw_scattered(SvgWriter& svg, const Series& series, PointShape shape, double x, double y,
                    const std::string& color, std::size_t n = std::string::npos) {
  const bool sized = n < series.sizes.size(), plain = series.points == PointShape::none;
  const bool round = plain && shape == PointShape::circle;
  draw_point(svg, shape, x, y, color, sized ? series.sizes[n] : round ? 3.5 : 3.2);
}

struct LegendEntry {
  const Series* series;
  PointShape shape = PointShape::none;
  double x = 0, y = 0;
};

// Entries flow from left to right and wrap at the page's edge.
std::vector<LegendEntry> legend_of(const PlotSpec& plot, double left, double top, double right) {
  std::vector<LegendEntry> entries;
  double x = left, y = top;
  if (!plot.legend) return entries;
  const std::vector<PointShape> shapes = shapes_of(plot);
  for (std::size_t n = 0; n < plot.series.size(); ++n) {
    const Series& series = plot.series[n];
    if (series.label.empty() || !series.in_legend) continue;
    const double width = 26 + text_width(series.label, 11.5) + 14;
    if (x > left && x + width > right) x = left, y += 17;
    entries.push_back({&series, shapes[n], x, y});
    x += width;
  }
  return entries;
}

void draw_legend(SvgWriter& svg, const std::vector<LegendEntry>& entries) {
  for (const LegendEntry& entry : entries) {
    const std::string color = svg.series(entry.series->color);
    const SeriesKind kind = entry.series->kind;
    if (kind == SeriesKind::bars || kind == SeriesKind::histogram) {
      svg.rect(entry.x, entry.y - 9, 18, 10, color, 0.55);
    } else if (kind == SeriesKind::scatter) {
      draw_scattered(svg, *entry.series, entry.shape, entry.x + 9, entry.y - 4, color);
    } else {
      svg.line(entry.x, entry.y - 4, entry.x + 18, entry.y - 4, color, entry.series->quiet ? 1 : 2,
               entry.series->dashed || entry.series->quiet);
    }
    if (kind != SeriesKind::scatter) draw_point(svg, entry.shape, entry.x + 9, entry.y - 4, color);
    svg.text(entry.x + 24, entry.y, entry.series->label, {11.5, svg.ink().ink});
  }
}

// Grid lines would hide cells of a map: there only the labels are drawn.
void draw_ticks(Page& page) {
  const Frame& frame = page.frame;
  const auto ticks_x = page.plot.x.ticks.empty()
                           ? nice_ticks(page.x.range.low, page.x.range.high, page.x.scale,
                                        static_cast<int>(frame.width / 80))
                           : page.plot.x.ticks;
  const auto ticks_y = page.plot.y.ticks.empty()
                           ? nice_ticks(page.y.range.low, page.y.range.high, page.y.scale,
                                        static_cast<int>(frame.height / 50))
                           : page.plot.y.ticks;
  const double bottom = frame.top + frame.height;
  for (const AxisTick& tick : ticks_x) {
    const double at = page.x(tick.at);
    if (!page.plot.map) page.svg.line(at, frame.top, at, bottom, page.svg.ink().rule);
    page.svg.text(at, bottom + 16, tick.label, {11, page.svg.ink().ink, TextAnchor::middle});
  }
  for (const AxisTick& tick : ticks_y) {
    const double at = page.y(tick.at);
    if (!page.plot.map) {
      page.svg.line(frame.left, at, frame.left + frame.width, at, page.svg.ink().rule);
    }
    page.svg.text(frame.left - 7, at + 4, tick.label, {11, page.svg.ink().ink, TextAnchor::end});
  }
}

void draw_axis_labels(Page& page) {
  const Frame& frame = page.frame;
  page.svg.rect(frame.left, frame.top, frame.width, frame.height, "none", 1, page.svg.ink().frame);
  page.svg.text(frame.left + frame.width / 2, frame.top + frame.height + 34, page.plot.x.label,
                {12, page.svg.ink().ink, TextAnchor::middle});
  SvgText turned{12, page.svg.ink().ink, TextAnchor::middle};
  turned.upright = false;
  page.svg.text(16, frame.top + frame.height / 2, page.plot.y.label, turned);
}

void draw_band(Page& page, const Series& series, const std::string& color) {
  for (const auto& run : band_runs(series, page.y.scale)) {
    const BandEdges edges = band_edges(series, run, page.x.scale, page.y.scale, page.y.range.low);
    SvgPoints outline;
    for (std::size_t i = 0; i < edges.x.size(); ++i) {
      outline.emplace_back(page.x(edges.x[i]), page.y(edges.high[i]));
    }
    for (std::size_t i = edges.x.size(); i-- > 0;) {
      outline.emplace_back(page.x(edges.x[i]), page.y(edges.low[i]));
    }
    page.svg.polygon(outline, color, 0.16);
  }
}

void draw_line(Page& page, const Series& series, PointShape shape, const std::string& color) {
  draw_band(page, series, color);
  const double opacity = series.quiet ? 0.55 : 1;
  SvgPoints run;
  const auto flush = [&] {
    if (run.size() > 1) {
      page.svg.polyline(run, color, series.quiet ? 1 : series.width, series.dashed || series.quiet,
                        opacity);
    } else if (run.size() == 1 && series.points == PointShape::none) {
      page.svg.circle(run[0].first, run[0].second, 2.5, color);
    }
    run.clear();
  };
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    const double x = page.x(series.x[i]), y = page.y(series.y[i]);
    if (!std::isfinite(x) || !std::isfinite(y)) {  // 0 has no place on a log axis
      flush();
      continue;
    }
    run.emplace_back(x, y);
    if (series.points != PointShape::none) draw_point(page.svg, shape, x, y, color);
  }
  flush();
}

// A line from low to high at each point that has both.
void draw_ends(Page& page, const Series& series, const std::string& color) {
  if (series.low.size() != series.y.size() || series.high.size() != series.y.size()) return;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    const double x = page.x(series.x[i]);
    if (!std::isfinite(x) || !std::isfinite(page.y(series.y[i]))) continue;
    if (std::isfinite(series.low[i]) && std::isfinite(series.high[i])) {
      page.svg.line(x, page.low_end(series.low[i]), x, page.y(series.high[i]), color, 1.4);
    }
  }
}

double floor_of(const Page& page) {
  return page.y.scale == Scale::log10 ? page.y.range.low
                                      : std::clamp(0.0, page.y.range.low, page.y.range.high);
}

void draw_bar(Page& page, double left, double right, double height, const std::string& color) {
  if (!std::isfinite(height)) return;
  const double a = page.y(height), b = page.y(floor_of(page));
  page.svg.rect(page.x(left), std::min(a, b), page.x(right) - page.x(left), std::abs(a - b), color,
                0.5);
}

void draw_bars(Page& page, const Series& series, const std::string& color) {
  const double step = series.x.size() > 1 ? std::abs(series.x[1] - series.x[0]) : 1.0;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    draw_bar(page, series.x[i] - 0.38 * step, series.x[i] + 0.38 * step, series.y[i], color);
  }
  draw_ends(page, series, color);
}

void draw_histogram(Page& page, const Series& series, const std::string& color) {
  const std::size_t bins = std::min(series.y.size(), series.x.size() - 1);
  const double base = page.y(floor_of(page));
  SvgPoints outline{{page.x(series.x[0]), base}};
  for (std::size_t i = 0; i < bins; ++i) {
    outline.emplace_back(page.x(series.x[i]), page.y(series.y[i]));
    outline.emplace_back(page.x(series.x[i + 1]), page.y(series.y[i]));
  }
  outline.emplace_back(page.x(series.x[bins]), base);
  page.svg.polygon(outline, color, 0.28);
  page.svg.polyline(outline, color, 1.4, series.dashed);
}

void draw_scatter(Page& page, const Series& series, PointShape shape, const std::string& color) {
  draw_ends(page, series, color);
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    const double x = page.x(series.x[i]);
    if (!std::isfinite(x) || !std::isfinite(page.y(series.y[i]))) continue;
    draw_scattered(page.svg, series, shape, x, page.y(series.y[i]), color, i);
  }
}

void draw_series(Page& page, const Series& series, PointShape shape) {
  if (series.x.empty() || series.y.empty()) return;
  const std::string color = page.svg.series(series.color);
  switch (series.kind) {
    case SeriesKind::line:
      return draw_line(page, series, shape, color);
    case SeriesKind::bars:
      return draw_bars(page, series, color);
    case SeriesKind::histogram:
      return draw_histogram(page, series, color);
    case SeriesKind::scatter:
      return draw_scatter(page, series, shape, color);
  }
}

// Above the lines of all, so that none hides another's.
void draw_series_marks(Page& page, const std::vector<PointShape>& shapes) {
  const Frame& frame = page.frame;
  const auto marks = series_marks(page.plot, shapes, frame.left, frame.left + frame.width,
                                  [&](double x, double y) {
                                    return MarkPlace{page.x(x), page.y(y)};
                                  });
  for (std::size_t n = 0; n < marks.size(); ++n) {
    page.svg.marks(marks[n], shapes[n], kMarkRadius, page.svg.series(page.plot.series[n].color));
  }
}

void shade_beyond(Page& page, const Marker& marker) {
  const double right = page.frame.left + page.frame.width;
  const double from = std::max(page.frame.left, page.x(marker.at));
  if (!marker.vertical || !marker.beyond || !(from < right)) return;
  page.svg.rect(from, page.frame.top, right - from, page.frame.height, page.svg.ink().pale, 0.13);
}

void draw_marker(Page& page, const Marker& marker, int place) {
  const Frame& frame = page.frame;
  const std::string color = marker.color < 0 ? page.svg.ink().pale : page.svg.series(marker.color);
  if (marker.vertical) {
    const double x = page.x(marker.at);
    page.svg.line(x, frame.top, x, frame.top + frame.height, color, 1.2, true);
    const bool left = x > frame.left + frame.width * 0.7;
    page.svg.text(x + (left ? -5 : 5), frame.top + 14 + 14 * place, marker.label,
                  {10.5, color, left ? TextAnchor::end : TextAnchor::start});
  } else {
    const double y = page.y(marker.at);
    page.svg.line(frame.left, y, frame.left + frame.width, y, color, 1.2, true);
    page.svg.text(frame.left + frame.width - 5, y - 4, marker.label,
                  {10.5, color, TextAnchor::end});
  }
}

// Cells enlarged to whole blocks of pixels: not every reader of SVG heeds image-rendering, and one
// that smooths would draw values that nobody measured.
std::string embedded(const MapSpec& map, int pixels, Ground ground) {
  const int scale = std::max(1, pixels / std::max({1, map.rows, map.cols}));
  return data_uri_of_png(png_of(map, scale, ground));
}

Ground ground_of(const SvgWriter& svg) { return svg.ink().dark ? Ground::dark : Ground::light; }

constexpr double kCellText = 10.5;

// The numbers of all cells, with as many digits as fit into the narrowest; none where two are too
// many.
std::vector<std::string> cell_numbers(const MapSpec& map, double width) {
  for (const int digits : {4, 3, 2}) {
    std::vector<std::string> numbers;
    bool fit = true;
    for (const float value : map.values) {
      char fewer[32];
      std::snprintf(fewer, sizeof fewer, "%.*g", digits, value);
      numbers.push_back(digits == 4 ? short_number(value) : fewer);
      const bool drawn = std::isfinite(value);
      fit = fit && (!drawn || text_width(numbers.back(), kCellText) <= width - 4);
    }
    if (fit) return numbers;
  }
  return {};
}

void draw_cell_values(Page& page, const MapSpec& map, double width, double height) {
  if (map.rows > kReadableCells || map.cols > kReadableCells) return;
  const std::vector<std::string> numbers = cell_numbers(map, width / map.cols);
  if (numbers.empty()) return;
  const double x = page.x(map.col_begin), y = page.y(map.row_begin);
  for (int r = 0; r < map.rows; ++r) {
    for (int c = 0; c < map.cols; ++c) {
      const std::size_t n = static_cast<std::size_t>(r) * map.cols + c;
      const float value = map.values[n];
      if (!std::isfinite(value)) continue;
      const Rgba under = cell_color(map, value, ground_of(page.svg));
      const bool dark = 299 * under.r + 587 * under.g + 114 * under.b < 128000;
      page.svg.text(x + width * (c + 0.5) / map.cols, y + height * (r + 0.5) / map.rows + 4,
                    numbers[n], {kCellText, dark ? "#ffffff" : "#111114", TextAnchor::middle});
    }
  }
}

void draw_map(Page& page, const MapSpec& map) {
  if (map.values.empty()) return;
  const double x0 = page.x(map.col_begin), y0 = page.y(map.row_begin);
  const double x1 = page.x(map.col_end > 0 ? map.col_end : map.cols);
  const double y1 = page.y(map.row_end > 0 ? map.row_end : map.rows);
  page.svg.image(x0, y0, x1 - x0, y1 - y0, embedded(map, 1024, ground_of(page.svg)));
  draw_cell_values(page, map, x1 - x0, y1 - y0);
}

// What the margin takes of the page's width.
double margin_room(const PlotSpec& plot) {
  return plot.map && !plot.map->margin.empty() ? kMarginGap + kMarginWidth : 0;
}

void draw_margin(Page& page, const MapSpec& map) {
  if (map.margin.empty()) return;
  const double left = page.frame.left + page.frame.width + kMarginGap;
  const double top = page.y(map.row_begin);
  const double bottom = page.y(map.row_end > 0 ? map.row_end : map.rows);
  page.svg.image(left, top, kMarginWidth, bottom - top,
                 embedded(margin_of(map), 1024, ground_of(page.svg)));
  page.svg.rect(left, top, kMarginWidth, bottom - top, "none", 1, page.svg.ink().frame);
  page.svg.text(left + kMarginWidth, page.frame.top + page.frame.height + 34, map.margin_name,
                {10.5, page.svg.ink().ink, TextAnchor::middle});
}

void draw_color_scale(SvgWriter& svg, const MapSpec& map, const Frame& frame) {
  const double left = frame.left + frame.width + 14, steps = 48;
  for (int i = 0; i < steps; ++i) {
    svg.rect(left, frame.top + frame.height * (1 - (i + 1) / steps), 13, frame.height / steps + 0.6,
             hex_of(color_at(map.colormap, (i + 0.5) / steps, ground_of(svg))));
  }
  svg.rect(left, frame.top, 13, frame.height, "none", 1, svg.ink().frame);
  for (const double t : {0.0, 0.5, 1.0}) {
    svg.text(left + 18, frame.top + frame.height * (1 - t) + 4,
             short_number(value_at_place(map, t)), {10.5, svg.ink().ink});
  }
  // Beside the scale there is room for so much; a longer title ends where that ends.
  constexpr double kRoom = 60;
  const bool longer = text_width(map.value_label, 10.5) > kRoom;
  svg.text(longer ? left + kRoom : left, frame.top - 9, map.value_label,
           {10.5, svg.ink().ink, longer ? TextAnchor::end : TextAnchor::start});
}

constexpr double kTitleSize = 14.5, kTitleLine = 19;

// A title in as many lines as it needs; bold letters are wider.
std::vector<std::string> title_lines(const std::string& title, double width) {
  std::vector<std::string> lines = wrapped(title, 1.06 * kTitleSize, width);
  if (lines.size() <= 1) return {title};
  return lines;
}

// What the lines below the first take.
double further_lines(const std::vector<std::string>& title) {
  return kTitleLine * static_cast<double>(title.size() - 1);
}

void draw_title(SvgWriter& svg, const std::vector<std::string>& lines, double left, double top) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    svg.text(left, top + kTitleLine * static_cast<double>(i), lines[i],
             {kTitleSize, svg.ink().strong, TextAnchor::start, true});
  }
}

std::vector<std::string> note_lines(const std::vector<std::string>& notes, double width) {
  std::vector<std::string> lines;
  for (const std::string& note : notes) {
    for (std::string& line : wrapped(note, kNoteSize, width)) lines.push_back(std::move(line));
  }
  return lines;
}

void draw_notes(SvgWriter& svg, const std::vector<std::string>& lines, double left, double top) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    svg.text(left, top + kNoteLine * static_cast<double>(i), lines[i],
             {kNoteSize, svg.ink().quiet});
  }
}

// Rows grow downwards on a map and values grow upwards on every other plot.
Page page_of(SvgWriter& svg, const PlotSpec& plot, const Frame& frame) {
  Page page{svg, plot, frame, {}, {}};
  const AxisRanges ranges = axis_ranges(plot, frame.width, frame.height);
  page.x = {ranges.x, plot.x.scale, frame.left, frame.left + frame.width};
  page.y = {ranges.y, plot.y.scale, frame.top + frame.height, frame.top};
  if (plot.map) std::swap(page.y.begin, page.y.end);
  return page;
}

void draw_data(Page& page) {
  const Frame& frame = page.frame;
  page.svg.begin_clip(frame.left, frame.top, frame.width, frame.height);
  for (const Marker& marker : page.plot.markers) shade_beyond(page, marker);
  if (page.plot.map) draw_map(page, *page.plot.map);
  const std::vector<PointShape> shapes = shapes_of(page.plot);
  for (std::size_t n = 0; n < shapes.size(); ++n) draw_series(page, page.plot.series[n], shapes[n]);
  draw_series_marks(page, shapes);
  int place = 0;
  for (const Marker& marker : page.plot.markers) draw_marker(page, marker, place++ % 4);
  page.svg.end_clip();
}

// A token is as high as it is wide, within reason; maps that are read as tables keep the frame.
double map_height(const MapSpec& map, const Frame& frame) {
  if (map.rows <= kReadableCells && map.cols <= kReadableCells) return frame.height;
  const double rows = (map.row_end > 0 ? map.row_end : map.rows) - map.row_begin;
  const double columns = (map.col_end > 0 ? map.col_end : map.cols) - map.col_begin;
  return frame.width * std::clamp(rows / columns, 0.3, 1.0);
}

// What stands left of the frame: the numbers of an axis, or its names, which may take half the
// page.
double left_room(const PlotSpec& plot, double page) {
  double widest = 0;
  for (const AxisTick& tick : plot.y.ticks) widest = std::max(widest, text_width(tick.label, 11));
  const double label = plot.y.label.empty() ? 6 : 24;
  return std::max(64.0, std::min(label + widest + 7, page / 2));
}

}  // namespace

std::string svg_of(const PlotSpec& plot, PixelSize size, FigureTheme theme) {
  const double left = left_room(plot, size.width), right = (plot.map ? 78 : 18) + margin_room(plot);
  const auto notes = note_lines(plot.notes, size.width - left - 18);
  const auto title = title_lines(plot.title, size.width - left - 18);
  const double titled = further_lines(title);
  const auto legend = legend_of(plot, left, 44 + titled, size.width - 18);
  const double top = legend.empty() ? (plot.map ? 52 : 36) + titled : legend.back().y + 14;
  const double below = 44 + (notes.empty() ? 0 : 8 + kNoteLine * notes.size());
  // A long legend and long notes make the page higher, not the plot flat.
  Frame frame{left, top, std::max(40.0, size.width - left - right),
              std::max(std::max(40.0, size.height / 2.0), size.height - top - below)};
  if (plot.map) frame.height = map_height(*plot.map, frame);
  SvgWriter svg(size.width, top + frame.height + below, theme);
  draw_title(svg, title, left, 22);
  draw_legend(svg, legend);
  Page page = page_of(svg, plot, frame);
  draw_ticks(page);
  draw_data(page);
  if (plot.map) {
    draw_margin(page, *plot.map);
    Frame scale = frame;
    scale.width += margin_room(plot);
    draw_color_scale(svg, *plot.map, scale);
  }
  draw_axis_labels(page);
  draw_notes(svg, notes, left, top + frame.height + 58);
  return svg.finish();
}

namespace {

// A plot as one of many: its data, its frame, and the ticks beside it.
void draw_small(SvgWriter& svg, const PlotSpec& plot, const Frame& cell) {
  constexpr double kTickRoom = 38, kTickHeight = 20;
  const Frame frame{cell.left + kTickRoom, cell.top, std::max(20.0, cell.width - kTickRoom),
                    std::max(20.0, cell.height - kTickHeight)};
  Page page = page_of(svg, plot, frame);
  draw_ticks(page);
  draw_data(page);
  svg.rect(frame.left, frame.top, frame.width, frame.height, "none", 1, svg.ink().frame);
}

void draw_cell(SvgWriter& svg, const GridCell& cell, const Frame& frame) {
  if (cell.plot) return draw_small(svg, *cell.plot, frame);
  if (!cell.map.values.empty()) {
    svg.image(frame.left, frame.top, frame.width, frame.height,
              embedded(cell.map, 256, ground_of(svg)));
  }
  svg.rect(frame.left, frame.top, frame.width, frame.height, "none", 1, svg.ink().frame);
}

// The look of all maps of a grid where they share a colour scale; nullptr where they do not.
const MapSpec* shared_scale(const GridSpec& grid) {
  const MapSpec* first = nullptr;
  for (const GridCell& cell : grid.cells) {
    if (cell.plot || cell.map.values.empty()) return nullptr;
    if (!first) first = &cell.map;
    const bool same = cell.map.colormap == first->colormap && cell.map.range == first->range &&
                      cell.map.log_decades == first->log_decades;
    if (!same) return nullptr;
  }
  return first;
}

constexpr double kFlatScaleLine = 20;

// In a line: what the colours are of, and a strip between the ends of the scale.
void draw_flat_scale(SvgWriter& svg, const MapSpec& map, double x, double y) {
  constexpr double kWidth = 96, kHeight = 10, kGap = 6;
  constexpr int kSteps = 48;
  const std::string low =
      (map.value_label.empty() ? "" : map.value_label + " ") + short_number(value_at_place(map, 0));
  svg.text(x, y + kHeight - 1, low, {kNoteSize, svg.ink().ink});
  const double left = x + text_width(low, kNoteSize) + kGap;
  for (int i = 0; i < kSteps; ++i) {
    svg.rect(left + kWidth * i / kSteps, y, kWidth / kSteps + 0.6, kHeight,
             hex_of(color_at(map.colormap, (i + 0.5) / kSteps, ground_of(svg))));
  }
  svg.rect(left, y, kWidth, kHeight, "none", 1, svg.ink().frame);
  svg.text(left + kWidth + kGap, y + kHeight - 1, short_number(value_at_place(map, 1)),
           {kNoteSize, svg.ink().ink});
}

}  // namespace

std::string svg_of(const GridSpec& grid, int width, FigureTheme theme) {
  const double gap = 10, caption = 18, edge = 16;
  const int columns = std::max(1, grid.columns);
  const double side = (width - 2 * edge - gap * (columns - 1)) / columns;
  const bool plots = std::any_of(grid.cells.begin(), grid.cells.end(),
                                 [](const GridCell& cell) { return cell.plot.has_value(); });
  const double height = plots ? std::max(110.0, 0.62 * side) : side;
  const int rows = (static_cast<int>(grid.cells.size()) + columns - 1) / columns;
  const auto notes = note_lines(grid.notes, width - 2 * edge);
  const auto title = title_lines(grid.title, width - 2 * edge);
  const MapSpec* scale = shared_scale(grid);
  const double top = 40 + further_lines(title), end = top + rows * (height + caption + gap);
  const double bottom = end + (scale ? kFlatScaleLine : 0);
  SvgWriter svg(width, bottom + 8 + kNoteLine * notes.size(), theme);
  draw_title(svg, title, edge, 24);
  if (scale) draw_flat_scale(svg, *scale, edge, end + 2);
  for (std::size_t i = 0; i < grid.cells.size(); ++i) {
    const double x = edge + (i % columns) * (side + gap);
    const std::size_t row = i / columns;
    const double y = top + row * (height + caption + gap);
    const GridCell& cell = grid.cells[i];
    draw_cell(svg, cell, {x, y, side, height});
    svg.text(x, y + height + 13, cell.caption, {10.5, svg.ink().ink});
  }
  draw_notes(svg, notes, edge, bottom + 6);
  return svg.finish();
}

}  // namespace phasescope::widgets
