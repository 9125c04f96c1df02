#pragma once
// What tells the series of a plot apart beside their colours: the shape of each one's points, and
// marks along lines and over bars that have no points of their own. Both drawers ask here.
#include <functional>
#include <utility>
#include <vector>

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// Colours that differ have shapes that differ; those of a model are the same in every figure.
PointShape shape_of_color(int color);

// The shape of each series of a plot: its own, or that of its colour where it would differ from
// another series by colour alone. Where there are more series than colours, as there are heads of a
// layer, colour is an order: each has its own shape, or none.
std::vector<PointShape> shapes_of(const PlotSpec& plot);

// Half of the height of a mark, in pixels.
inline constexpr double kMarkRadius = 3;

using MarkPlace = std::pair<double, double>;  // in pixels
// From a place on the axes to pixels; what has no place there need not be finite.
using ToPixels = std::function<MarkPlace(double x, double y)>;

// The marks of each series between two ends of the plot, in pixels: at values of lines and bars and
// in the middle of bins, all where these are few, else three to nine that are a step away from
// those of the other series. None where a series has no shape, or points of its own.
std::vector<std::vector<MarkPlace>> series_marks(const PlotSpec& plot,
                                                 const std::vector<PointShape>& shapes, double left,
                                                 double right, const ToPixels& to_pixels);

}  // namespace phasescope::widgets
