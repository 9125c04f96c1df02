#include "app/window/sessions_dialog.h"

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>

#include "app/window/dialog.h"
#include "app/window/opening.h"
#include "app/window/session_file.h"
#include "formats/error.h"

namespace phasescope::app {
namespace {

constexpr const char* kSessionsTitle = "Sessions";
// The title, the name, what went wrong and the buttons.
constexpr float kLinesAroundNames = 4.5F;

}  // namespace

void SessionsDialog::draw_list(ViewContext& context) {
  if (ImGui::BeginChild("names", {0, list_height(14, kLinesAroundNames)},
                        ImGuiChildFlags_Borders | ImGuiChildFlags_NavFlattened)) {
    // A click selects and a second one opens; Enter does both.
    const bool by_key = ImGui::IsKeyPressed(ImGuiKey_Enter, false) ||
                        ImGui::IsKeyPressed(ImGuiKey_KeypadEnter, false);
    if (names_.empty()) ImGui::TextDisabled("None has a name yet.");
    for (const std::string& name : names_) {
      const auto flags =
          ImGuiSelectableFlags_AllowDoubleClick | ImGuiSelectableFlags_NoAutoClosePopups;
      if (!ImGui::Selectable(name.c_str(), name == name_, flags)) continue;
      name_ = name, trouble_.clear();
      if (!by_key && !ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) continue;
      open_any(context, place_of_session(folder_, name).string());
      ImGui::CloseCurrentPopup();
    }
  }
  ImGui::EndChild();
}

void SessionsDialog::save(ViewContext& context, const Session& session) {
  try {
    save_session(formats::real_file_system(), place_of_session(folder_, name_), session);
    context.window.say("The session is kept as " + name_);
    ImGui::CloseCurrentPopup();
  } catch (const formats::Error& error) {
    trouble_ = error.full_text();
  }
}

void SessionsDialog::draw(ViewContext& context, const std::function<Session()>& session) {
  if (std::exchange(context.window.sessions_open, false)) {
    ImGui::OpenPopup(kSessionsTitle);
    names_ = session_names(folder_);
    trouble_.clear();
  }
  place_dialog(30, 0, ImGuiCond_Always);
  bool open = true;
  if (!ImGui::BeginPopupModal(kSessionsTitle, &open, ImGuiWindowFlags_NoSavedSettings)) return;
  draw_list(context);
  ImGui::SetNextItemWidth(-1);
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::InputTextWithHint("##name", "A name for the present session", &name_);
  say_trouble(trouble_);
  const bool known = std::ranges::find(names_, name_) != names_.end();
  ImGui::BeginDisabled(!known);
  if (ImGui::Button("Open")) {
    open_any(context, place_of_session(folder_, name_).string());
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndDisabled();
  ImGui::SameLine();
  // What is there already is replaced by a button that says so.
  ImGui::BeginDisabled(name_.empty());
  if (ImGui::Button(known ? "Replace by the present one" : "Save")) save(context, session());
  ImGui::EndDisabled();
  ImGui::SameLine();
  if (ImGui::Button("Cancel") || ImGui::IsKeyPressed(ImGuiKey_Escape)) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

}  // namespace phasescope::app
