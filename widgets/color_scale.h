#pragma once

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// The colour scale of a map with its ends printed, as high as asked, and beside it what it is of,
// which the pointer is told too: alone where it is not `titled`. And its width.
void draw_color_scale(const MapSpec& map, float height, bool titled = true);
float color_scale_width(bool titled = true);

// The colour scale in a line of words: what it is of, and a strip between its ends.
void draw_color_line(const MapSpec& map);

}  // namespace phasescope::widgets
