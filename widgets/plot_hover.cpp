#include "widgets/plot_hover.h"

#include <algorithm>
#include <cmath>

namespace phasescope::widgets {
namespace {

std::size_t drawn_points(const Series& series) {
  if (series.kind == SeriesKind::histogram) {
    return std::min(series.y.size(), series.x.empty() ? 0 : series.x.size() - 1);
  }
  return std::min(series.x.size(), series.y.size());
}

double x_of(const Series& series, std::size_t i) {
  return series.kind == SeriesKind::histogram ? (series.x[i] + series.x[i + 1]) / 2 : series.x[i];
}

// Pixels from the pointer to the bin; 0 inside of it.
double from_bin(const Series& series, std::size_t i, const AxisPixels& x, double at) {
  const double a = x(series.x[i]), b = x(series.x[i + 1]);
  return std::max({0.0, std::min(a, b) - at, at - std::max(a, b)});
}

struct Search {
  const PlotSpec& plot;
  const PlotPixels& pixels;
  PixelPoint at;
  bool downward;

  std::optional<NearPoint> measured(std::size_t index, std::size_t i) const {
    const Series& series = plot.series[index];
    NearPoint point{index, i, x_of(series, i), series.y[i], 0, 0};
    const double x = pixels.x(point.x), y = pixels.y(point.y);
    if (!std::isfinite(x) || !std::isfinite(y)) return std::nullopt;
    point.away = std::hypot(x - at.x, y - at.y);
    point.along = downward ? std::abs(y - at.y) : std::abs(x - at.x);
    if (series.kind == SeriesKind::histogram) point.along = from_bin(series, i, pixels.x, at.x);
    return point;
  }

  std::optional<NearPoint> nearest_of(std::size_t index, double reach) const {
    const Series& series = plot.series[index];
    const bool scatter = series.kind == SeriesKind::scatter;
    std::optional<NearPoint> best;
    const auto rank = [&](const NearPoint& point) { return scatter ? point.away : point.along; };
    for (std::size_t i = 0; i < drawn_points(series); ++i) {
      if (const auto point = measured(index, i); point && (!best || rank(*point) < rank(*best))) {
        best = point;
      }
    }
    if (best && scatter && best->away > reach) return std::nullopt;
    return best;
  }
};

}  // namespace

double AxisPixels::operator()(double value) const {
  const double t = scale == Scale::log10 ? std::log(value / low) / std::log(high / low)
                                         : (value - low) / (high - low);
  return begin + t * (end - begin);
}

bool runs_downward(const PlotSpec& plot) {
  return plot.x.of == Coordinate::none && plot.y.of != Coordinate::none;
}

std::vector<NearPoint> near_points(const PlotSpec& plot, const PlotPixels& pixels, PixelPoint at,
                                   double reach) {
  const Search search{plot, pixels, at, runs_downward(plot)};
  std::vector<NearPoint> found;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    if (const auto point = search.nearest_of(i, reach)) found.push_back(*point);
  }
  double least = INFINITY;
  for (const NearPoint& point : found) least = std::min(least, point.along);
  std::erase_if(found, [&](const NearPoint& point) { return point.along > least + reach; });
  return found;
}

const NearPoint* nearest(const std::vector<NearPoint>& points) {
  const auto best = std::ranges::min_element(points, {}, &NearPoint::away);
  return best == points.end() ? nullptr : &*best;
}

std::string value_text(const Series& series, const NearPoint& point, bool downward) {
  std::string text = short_number(downward ? point.x : point.y);
  const std::size_t i = point.point;
  if (i >= series.low.size() || i >= series.high.size()) return text;
  if (std::isnan(series.low[i]) || std::isnan(series.high[i])) return text;
  return text + " [" + short_number(series.low[i]) + ", " + short_number(series.high[i]) + "]";
}

std::string place_text(const Series& series, const NearPoint& point, bool downward) {
  if (series.kind == SeriesKind::histogram) {
    return short_number(series.x[point.point]) + " to " + short_number(series.x[point.point + 1]);
  }
  return short_number(downward ? point.y : point.x);
}

void set_coordinate(Hover& hover, const AxisSpec& axis, double value, bool cells) {
  if (axis.of == Coordinate::none || !std::isfinite(value)) return;
  const double place = value - axis.zero;
  hover.set(axis.of, static_cast<std::int64_t>(cells ? std::floor(place) : std::round(place)));
}

std::optional<double> marked_place(const Hover& hover, const AxisSpec& axis, bool cells) {
  const auto place = hover.at(axis.of);
  if (!place) return std::nullopt;
  return static_cast<double>(*place) + axis.zero + (cells ? 0.5 : 0.0);
}

}  // namespace phasescope::widgets
