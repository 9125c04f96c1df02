#include "app/window/notices.h"

#include <imgui.h>

#include <algorithm>
#include <string>
#include <utility>

#include "app/window/dialog.h"
#include "widgets/theme.h"

namespace phasescope::app {

void draw_notices(WindowState& window) {
  const ImGuiViewport* view = ImGui::GetMainViewport();
  float bottom = view->WorkPos.y + view->WorkSize.y - 14;
  int dismissed = -1;
  bool held = false;  // by the pointer, which is reading
  for (std::size_t i = 0; i < window.notices.size(); ++i) {
    const WindowState::Notice& notice = window.notices[i];
    ImGui::SetNextWindowPos({view->WorkPos.x + view->WorkSize.x - 14, bottom}, ImGuiCond_Always,
                            {1, 1});
    const float widest = view->WorkSize.x * 0.45F;
    ImGui::SetNextWindowSizeConstraints({0, 0}, {widest, view->WorkSize.y * 0.57F});
    const ImGuiWindowFlags flags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                                   ImGuiWindowFlags_NoMove | ImGuiWindowFlags_AlwaysAutoResize |
                                   ImGuiWindowFlags_NoSavedSettings |
                                   ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav;
    if (ImGui::Begin(("##notice" + std::to_string(i)).c_str(), nullptr, flags)) {
      ImGui::PushTextWrapPos(
          std::min(ImGui::GetFontSize() * 38, widest - ImGui::GetStyle().WindowPadding.x));
      ImGui::TextColored(
          notice.error ? widgets::palette().bad : ImGui::GetStyleColorVec4(ImGuiCol_Text), "%s",
          notice.text.c_str());
      ImGui::PopTextWrapPos();
      held = held || ImGui::IsWindowHovered();
      if (ImGui::IsWindowHovered() && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
        dismissed = static_cast<int>(i);
      }
      bottom -= ImGui::GetWindowHeight() + 8;
    }
    ImGui::End();
  }
  if (dismissed >= 0) window.notices.erase(window.notices.begin() + dismissed);
  window.drop_old_notices(held);
}

void draw_messages(WindowState& window) {
  if (std::exchange(window.messages_open, false)) ImGui::OpenPopup("Messages");
  place_dialog(46, 26, ImGuiCond_Appearing);
  bool open = true;
  if (!ImGui::BeginPopupModal("Messages", &open, ImGuiWindowFlags_NoSavedSettings)) return;
  if (ImGui::IsKeyPressed(ImGuiKey_Escape)) ImGui::CloseCurrentPopup();
  if (window.said.empty()) ImGui::TextDisabled("Nothing was said yet.");
  if (!window.said.empty() && ImGui::Button("Copy all")) {
    std::string all;
    for (const WindowState::Notice& notice : window.said) all += notice.text + "\n";
    window.copy(all);
  }
  for (auto notice = window.said.rbegin(); notice != window.said.rend(); ++notice) {
    ImGui::PushStyleColor(ImGuiCol_Text, notice->error ? widgets::palette().bad
                                                       : ImGui::GetStyleColorVec4(ImGuiCol_Text));
    ImGui::TextWrapped("%s", notice->text.c_str());
    ImGui::PopStyleColor();
  }
  ImGui::EndPopup();
}

}  // namespace phasescope::app
