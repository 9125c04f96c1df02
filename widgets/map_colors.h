#pragma once
// The colours of maps on a light or a dark ground, in the window and in files. What is nothing
// (weight 0, a difference of 0) is drawn nearly as the ground itself: on a dark one weights run
// from dark to white and signed values through black, so that an empty map does not glare.
#include "widgets/plot_spec.h"

namespace phasescope::widgets {

enum class Ground { light, dark };

// Half of a causal map is masked: on a dark ground it stays behind what is measured.
inline constexpr Rgba kMaskedOnDark{0x30, 0x35, 0x40, 255};

// The ground of the present theme.
Ground window_ground();

// The colour of t in 0..1 (clamped) along the map; on a light ground as color_at(map, t).
Rgba color_at(Colormap map, double t, Ground ground);

// As cell_color(map, value) on a light ground.
Rgba cell_color(const MapSpec& map, double value, Ground ground);

// The value that stands at t in 0..1 on the map's colour scale: what scale_place gives back as t.
double value_at_place(const MapSpec& map, double t);

// 256 entries of it, what the heatmap's shader looks up.
std::array<Rgba, 256> color_table(Colormap map, Ground ground);

}  // namespace phasescope::widgets
