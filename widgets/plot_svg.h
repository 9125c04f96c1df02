#pragma once

#include <string>

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// The figure as a self-contained SVG: real <text>, polylines, and one embedded PNG for a map.
// Fonts are named (Inter, then what the reader has). Needs no OpenGL and no display.
std::string svg_of(const PlotSpec& plot, PixelSize size = {},
                   FigureTheme theme = FigureTheme::light);

// Thumbnails in a grid with their captions; the height follows from the number of rows.
std::string svg_of(const GridSpec& grid, int width = 960, FigureTheme theme = FigureTheme::light);

}  // namespace phasescope::widgets
