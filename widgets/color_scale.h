#pragma once

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// The colour scale of a map with its ends printed, as high as asked, and beside it what it is of,
// which the pointer is told too; and its width.
void draw_color_scale(const MapSpec& map, float height);
float color_scale_width();

}  // namespace phasescope::widgets
