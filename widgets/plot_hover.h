#pragma once
// Which points of a plot the pointer is at. Drawing does not come into it.
#include <string>
#include <vector>

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// Where the values of an axis stand, in pixels; `end` may be below `begin`.
struct AxisPixels {
  Scale scale = Scale::linear;
  double low = 0, high = 1;   // values at the ends; above 0 on a log axis
  double begin = 0, end = 1;  // pixels there
  // Not finite where a value has no place (0 on a log axis).
  double operator()(double value) const;
};

struct PlotPixels {
  AxisPixels x, y;
};

struct PixelPoint {
  double x = 0, y = 0;
};

struct NearPoint {
  std::size_t series = 0, point = 0;
  double x = 0, y = 0;         // as in the series; of a histogram the middle of the bin
  double along = 0, away = 0;  // pixels from the pointer: along the axis of places, and in all
};

// True where the series run from top to bottom: the places stand on y, the values on x.
bool runs_downward(const PlotSpec& plot);

// The nearest point of each series that has one: along the axis of places for curves, bars and
// histograms; the nearest of all, within `reach` pixels, for a scatter. Curves that end far from
// the pointer, more than `reach` pixels beyond the nearest point of all, are left out. In the order
// of the series.
std::vector<NearPoint> near_points(const PlotSpec& plot, const PlotPixels& pixels, PixelPoint at,
                                   double reach = 24);

// The one of them that is nearest to the pointer in all; nullptr of none.
const NearPoint* nearest(const std::vector<NearPoint>& points);

// "0.512", with the interval where there is one: "0.512 [0.49, 0.53]".
std::string value_text(const Series& series, const NearPoint& point, bool downward = false);
// "16 to 32" of a histogram's bin, else the place alone.
std::string place_text(const Series& series, const NearPoint& point, bool downward = false);

// What an axis says of a number on it; nothing where its numbers are no coordinate.
void set_coordinate(Hover& hover, const AxisSpec& axis, double value, bool cells);
// The number of an axis at which a hover stands; nothing where it says nothing of it.
std::optional<double> marked_place(const Hover& hover, const AxisSpec& axis, bool cells);

}  // namespace phasescope::widgets
