#pragma once
// The curves, bars and points of a figure in ImPlot; for plot_draw.cpp alone.
#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// Between ImPlot::BeginPlot and EndPlot; `index` tells the series of a plot apart. The bands of all
// series stand below the lines of all: a band over another's line would change its colour.
void draw_band(const Series& series, int index);
void draw_series(const Series& series, int index);

// What stands before the series' name in a legend.
void draw_swatch(const Series& series);
// The legend, wrapped at the width that is left; what has no room in so many lines is counted, and
// listed under the pointer.
void draw_legend(const PlotSpec& plot, int most_lines);

}  // namespace phasescope::widgets
