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

}  // namespace phasescope::widgets
