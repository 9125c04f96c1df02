#include "widgets/series_marks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "widgets/colormap.h"

namespace phasescope::widgets {
namespace {

// So many values are all marked.
constexpr std::size_t kFewValues = 12;
// Between the marks of a line, in pixels.
constexpr double kSpacing = 70;
// Bins lower than this part of the highest have no mark: those of all series are alike there.
constexpr double kLowBin = 0.02;

int palette_place(int color) {
  const int count = series_count();
  return ((color % count) + count) % count;
}

// As it is drawn by itself: a scatter has some points.
PointShape own_shape(const Series& series) {
  const bool points = series.kind == SeriesKind::scatter && series.points == PointShape::none;
  return points ? PointShape::circle : series.points;
}

// Lines of arcs or of rising shifts: thin and thick ones are not mistaken for each other.
bool have_one_width(const Series& a, const Series& b) {
  constexpr double kSeen = 1.5;
  return std::max(a.width, b.width) < kSeen * std::min(a.width, b.width);
}

bool differ_by_color_alone(const Series& a, const Series& b) {
  return a.color != b.color && a.kind == b.kind && own_shape(a) == own_shape(b) &&
         a.dashed == b.dashed && a.quiet == b.quiet && have_one_width(a, b) && !a.x.empty() &&
         !b.x.empty();
}

bool has_more_series_than_colors(const PlotSpec& plot) {
  std::set<int> colors, palette;
  for (const Series& series : plot.series) {
    if (!series.x.empty()) colors.insert(series.color), palette.insert(palette_place(series.color));
  }
  return colors.size() > palette.size();
}

// Of long series not each value is looked at: all of the first, which a log axis spreads, then
// enough for a pixel each.
std::size_t value_after(std::size_t i, std::size_t count) {
  constexpr std::size_t kAll = 1024, kFurther = 2048;
  return i < kAll ? i + 1 : i + std::max<std::size_t>(1, count / kFurther);
}

std::vector<MarkPlace> places_of(const Series& series, const ToPixels& to_pixels) {
  const bool bins = series.kind == SeriesKind::histogram;
  if (series.x.empty() || series.y.empty()) return {};
  const std::size_t count = std::min(series.x.size() - (bins ? 1 : 0), series.y.size());
  const double least = bins ? kLowBin * *std::ranges::max_element(series.y) : 0;
  std::vector<MarkPlace> places;
  for (std::size_t i = 0; i < count; i = value_after(i, count)) {
    if (bins && !(series.y[i] > least)) continue;
    const double x = bins ? (series.x[i] + series.x[i + 1]) / 2 : series.x[i];
    const MarkPlace at = to_pixels(x, series.y[i]);
    if (std::isfinite(at.first) && std::isfinite(at.second)) places.push_back(at);
  }
  return places;
}

// The places nearest to those `phase` of a step into each of so many steps from `left` on.
std::vector<MarkPlace> sparse(const std::vector<MarkPlace>& places, double left, double step,
                              int steps, double phase) {
  std::vector<MarkPlace> nearest(static_cast<std::size_t>(steps));
  std::vector<double> distance(nearest.size(), std::numeric_limits<double>::infinity());
  for (const MarkPlace& place : places) {
    const double at = (place.first - left) / step;
    if (!(at >= 0) || at > steps) continue;
    const std::size_t n = std::min(static_cast<std::size_t>(at), nearest.size() - 1);
    const double off = std::abs(at - (static_cast<double>(n) + phase));
    if (off < distance[n]) distance[n] = off, nearest[n] = place;
  }
  std::vector<MarkPlace> marks;
  for (std::size_t n = 0; n < nearest.size(); ++n) {
    if (std::isfinite(distance[n])) marks.push_back(nearest[n]);
  }
  return marks;
}

}  // namespace

PointShape shape_of_color(int color) { return static_cast<PointShape>(1 + palette_place(color)); }

std::vector<PointShape> shapes_of(const PlotSpec& plot) {
  std::vector<PointShape> shapes;
  for (const Series& series : plot.series) shapes.push_back(own_shape(series));
  if (has_more_series_than_colors(plot)) return shapes;
  for (std::size_t n = 0; n < shapes.size(); ++n) {
    const Series& series = plot.series[n];
    const auto alike = [&](const Series& other) { return differ_by_color_alone(series, other); };
    if (std::ranges::any_of(plot.series, alike)) shapes[n] = shape_of_color(series.color);
  }
  return shapes;
}

std::vector<std::vector<MarkPlace>> series_marks(const PlotSpec& plot,
                                                 const std::vector<PointShape>& shapes, double left,
                                                 double right, const ToPixels& to_pixels) {
  std::vector<std::vector<MarkPlace>> marks(plot.series.size());
  std::vector<std::size_t> marked;
  double begin = right, end = left;  // of what is seen of all of them
  for (std::size_t n = 0; n < plot.series.size(); ++n) {
    const Series& series = plot.series[n];
    const bool own = series.points != PointShape::none || series.kind == SeriesKind::scatter;
    if (own || shapes[n] == PointShape::none) continue;
    marks[n] = places_of(series, to_pixels);
    marked.push_back(n);
    for (const MarkPlace& place : marks[n]) {
      if (place.first >= left && place.first <= right) {
        begin = std::min(begin, place.first), end = std::max(end, place.first);
      }
    }
  }
  const int steps = std::clamp(static_cast<int>(std::lround((end - begin) / kSpacing)), 3, 9);
  for (std::size_t rank = 0; rank < marked.size(); ++rank) {
    std::vector<MarkPlace>& of_series = marks[marked[rank]];
    if (of_series.size() <= kFewValues) continue;
    const double phase = (static_cast<double>(rank) + 0.5) / static_cast<double>(marked.size());
    of_series = end > begin ? sparse(of_series, begin, (end - begin) / steps, steps, phase)
                            : std::vector<MarkPlace>{};
  }
  return marks;
}

}  // namespace phasescope::widgets
