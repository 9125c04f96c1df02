#include "app/window/shortcuts.h"

#include <imgui.h>

#include <utility>

#include "widgets/focus_keys.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

constexpr const char* kDialog = "Keyboard shortcuts";

void draw_keys(const char* keys) {
  ImGui::TableNextColumn();
  ImGui::TextColored(widgets::palette().quiet, "%s", keys);
}

void draw_command_keys(const std::vector<Command>& commands, bool wide) {
  if (!ImGui::BeginTable("keys", wide ? 4 : 2, ImGuiTableFlags_SizingFixedFit)) return;
  for (const Command& command : commands) {
    if (!command.shortcut) continue;
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(command.title.c_str());
    draw_keys(shortcut_text(command).c_str());
  }
  ImGui::EndTable();
}

void draw_focus_keys(float width) {
  ImGui::SeparatorText("Where the focus is");
  if (!ImGui::BeginTable("focus keys", 2, ImGuiTableFlags_SizingFixedFit)) return;
  for (const widgets::KeyHelp& one : widgets::focus_keys_help()) {
    draw_keys(one.keys);
    ImGui::TableNextColumn();
    ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + width);
    ImGui::TextUnformatted(one.does);
    ImGui::PopTextWrapPos();
  }
  ImGui::EndTable();
}

}  // namespace

void draw_shortcuts(bool& open, const std::vector<Command>& commands) {
  if (std::exchange(open, false)) ImGui::OpenPopup(kDialog);
  const ImGuiViewport* view = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(view->GetCenter(), ImGuiCond_Appearing, {0.5F, 0.5F});
  ImGui::SetNextWindowSizeConstraints({0, 0}, {view->WorkSize.x * 0.95F, view->WorkSize.y * 0.9F});
  bool stays = true;
  if (!ImGui::BeginPopupModal(
          kDialog, &stays, ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoSavedSettings)) {
    return;
  }
  if (ImGui::IsKeyPressed(ImGuiKey_Escape)) ImGui::CloseCurrentPopup();
  const float font = ImGui::GetFontSize();
  const bool wide = view->WorkSize.x > font * 60;
  draw_command_keys(commands, wide);
  draw_focus_keys(font * (wide ? 40 : 18));
  ImGui::EndPopup();
}

}  // namespace phasescope::app
