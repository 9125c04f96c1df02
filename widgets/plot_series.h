#pragma once
// The curves, bars and points of a figure in ImPlot; for plot_draw.cpp alone.
#include <vector>

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// Between ImPlot::BeginPlot and EndPlot; `index` tells the series of a plot apart. The bands of all
// series stand below the lines of all: a band over another's line would change its colour.
void draw_band(const Series& series, int index, Scale scale_of_x, Scale scale_of_y);
// `shape`: that of shapes_of (series_marks.h).
void draw_series(const Series& series, int index, PointShape shape);
// The marks along the lines of all series, above them.
void draw_series_marks(const PlotSpec& plot, const std::vector<PointShape>& shapes);
// What lies beyond a marker, below all series; its line and words, over them, from one of four
// lines on. Returns how many lines the words take.
void shade_beyond(const Marker& marker);
int draw_marker(const Marker& marker, int line);

// What stands before the series' name in a legend.
void draw_swatch(const Series& series, PointShape shape);
// The legend, wrapped at the width that is left; what has no room in so many lines is counted, and
// listed under the pointer.
void draw_legend(const PlotSpec& plot, int most_lines);

}  // namespace phasescope::widgets
