#pragma once
// Controls of a view where they would leave its figure too little of it: there they have a bounded
// height and are scrolled, by the wheel and, as they are reached, by keys. Where there is room, as
// with letters of the usual size, they stand in the view itself.
#include <imgui.h>

#include <algorithm>

namespace phasescope::app {

// While it lives, what is drawn in the present ImGui window are the controls above its figure. How
// high they are is known from the frame before.
class ControlsRoom {
 public:
  ControlsRoom() : storage_(ImGui::GetStateStorage()), key_(ImGui::GetID("height of controls")) {
    constexpr float kMostOfView = 0.4F;
    // In font sizes: a figure that has as much is read beside controls of any height.
    constexpr float kFigureHeight = 9;
    const float room = ImGui::GetContentRegionAvail().y;
    const float most = std::max(ImGui::GetFrameHeight(), room * kMostOfView);
    const float height = storage_->GetFloat(key_);
    bounded_ = height > most && room - height < kFigureHeight * ImGui::GetFontSize();
    if (bounded_) ImGui::BeginChild("controls", {0, most}, ImGuiChildFlags_NavFlattened);
    begin_ = ImGui::GetCursorPosY();
  }
  ~ControlsRoom() {
    storage_->SetFloat(key_, ImGui::GetCursorPosY() - begin_);
    if (bounded_) ImGui::EndChild();
  }
  ControlsRoom(const ControlsRoom&) = delete;
  ControlsRoom& operator=(const ControlsRoom&) = delete;

 private:
  ImGuiStorage* storage_;
  ImGuiID key_;
  bool bounded_ = false;
  float begin_ = 0;
};

}  // namespace phasescope::app
