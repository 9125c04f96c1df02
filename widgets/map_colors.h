#pragma once
// The colours of maps in the window, which lies on a light or a dark ground. What is nothing
// (weight 0, a difference of 0) is drawn nearly as the ground itself: on a dark one weights run
// from dark to white and signed values through black, so that an empty map does not glare. Figures
// in files are on a light ground (colormap.h).
#include "widgets/colormap.h"

namespace phasescope::widgets {

enum class Ground { light, dark };

// That of the present theme.
Ground window_ground();

// The colour of t in 0..1 (clamped) along the map; on a light ground as color_at(map, t).
Rgba color_at(Colormap map, double t, Ground ground);

// 256 entries of it, what the heatmap's shader looks up.
std::array<Rgba, 256> color_table(Colormap map, Ground ground);

}  // namespace phasescope::widgets
