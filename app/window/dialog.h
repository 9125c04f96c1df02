#pragma once
// What dialogs have in common: they stand in the middle of the window, however small it is and
// however large its letters, and say whole what went wrong.
#include <imgui.h>

#include <algorithm>
#include <string>

#include "widgets/busy.h"
#include "widgets/theme.h"

namespace phasescope::app {

// Of the window's width and height a dialog takes no more than this.
constexpr float kMostOfWindow = 0.94F;

// Puts the next popup there when it appears, so many font sizes wide and high where there is room
// for them; of height 0 it is as high as what stands in it. `when` it is of that size.
inline void place_dialog(float width, float height, ImGuiCond when) {
  const ImGuiViewport* view = ImGui::GetMainViewport();
  const float font = ImGui::GetFontSize();
  ImGui::SetNextWindowPos(view->GetCenter(), ImGuiCond_Appearing, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({std::min(font * width, view->WorkSize.x * kMostOfWindow),
                            std::min(font * height, view->WorkSize.y * kMostOfWindow)},
                           when);
}

// The height of a list in a dialog: so many font sizes, or what `lines` of controls around it leave
// of the window.
inline float list_height(float height, float lines) {
  const float room = ImGui::GetMainViewport()->WorkSize.y * kMostOfWindow -
                     lines * ImGui::GetFrameHeightWithSpacing() -
                     2 * ImGui::GetStyle().WindowPadding.y;
  const float least = 2 * ImGui::GetFrameHeightWithSpacing();
  return std::max(least, std::min(ImGui::GetFontSize() * height, room));
}

// What went wrong, in as many lines as it takes; nothing where it is empty.
inline void say_trouble(const std::string& words) {
  widgets::draw_paragraph(words, widgets::palette().bad);
}

}  // namespace phasescope::app
