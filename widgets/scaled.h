#pragma once
// Lengths that are chosen in pixels, where letters are scaled.
#include <imgui.h>

namespace phasescope::widgets {

// So many pixels of a display of the usual density, times the scale that apply_theme() was given: a
// line that is 1.6 pixels wide beside letters of 14 is 4.8 wide beside letters of 42.
inline float scaled(float pixels) { return pixels * ImGui::GetStyle().FontScaleDpi; }

}  // namespace phasescope::widgets
