#include "app/window/palette.h"

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>

#include "widgets/theme.h"

namespace phasescope::app {
namespace {

constexpr const char* kPaletteName = "##palette";
// Of the window's height, below which it begins.
constexpr float kBegin = 0.12F, kListOfWindow = 0.65F;

}  // namespace

void CommandPalette::draw_list(ViewContext& context, const std::vector<const Command*>& found) {
  const Command* run =
      run_chosen_ && !found.empty() ? found[static_cast<std::size_t>(chosen_)] : nullptr;
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float most = ImGui::GetMainViewport()->WorkSize.y * kListOfWindow;
  if (ImGui::BeginChild("found", {0, std::min(line * 12, most)})) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Command& command = *found[i];
      const bool chosen = static_cast<int>(i) == chosen_;
      const auto flags =
          command.can_run(context) ? ImGuiSelectableFlags_None : ImGuiSelectableFlags_Disabled;
      ImGui::PushID(command.id.c_str());
      if (ImGui::Selectable(command.title.c_str(), chosen, flags)) run = &command;
      ImGui::PopID();
      if (chosen && walked_) ImGui::SetScrollHereY();
      const std::string keys = shortcut_text(command);
      const std::string both =
          command.help + (command.help.empty() || keys.empty() ? "" : "   ") + keys;
      const float room = ImGui::GetWindowWidth() - ImGui::CalcTextSize(command.title.c_str()).x -
                         ImGui::GetFontSize() * 3;
      const bool fits = keys.empty() || ImGui::CalcTextSize(both.c_str()).x < room;
      const std::string& aside = fits ? both : keys;
      if (aside.empty()) continue;
      const float width = ImGui::CalcTextSize(aside.c_str()).x;
      ImGui::SameLine(ImGui::GetWindowWidth() - width - ImGui::GetStyle().ScrollbarSize - 8);
      ImGui::TextColored(widgets::palette().quiet, "%s", aside.c_str());
    }
    if (found.empty()) ImGui::TextDisabled("Nothing has such a name.");
  }
  ImGui::EndChild();
  if (!run || !run->can_run(context)) return;
  context.window.palette_open = false;
  ImGui::CloseCurrentPopup();
  run->run(context);
}

void CommandPalette::draw(ViewContext& context, const std::vector<Command>& commands,
                          const About& about) {
  const bool opened = context.window.palette_open && !shown_;
  if (opened) {
    ImGui::OpenPopup(kPaletteName);
    words_.clear();
    openable_ = openable_models(context.session());
    chosen_ = 0;
  }
  shown_ = context.window.palette_open;
  if (!shown_) return;
  const ImGuiViewport* view = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos({view->GetCenter().x, view->WorkPos.y + view->WorkSize.y * kBegin},
                          ImGuiCond_Always, {0.5F, 0});
  ImGui::SetNextWindowSize({std::min(view->WorkSize.x * 0.9F, ImGui::GetFontSize() * 44), 0});
  if (!ImGui::BeginPopup(kPaletteName)) {
    context.window.palette_open = shown_ = false;  // closed by a click elsewhere
    return;
  }
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  const std::string before = words_;
  run_chosen_ = ImGui::InputTextWithHint(
      "##words", "A command, a model, a head (L3H5), a token (token 120) or words of the text",
      &words_, ImGuiInputTextFlags_EnterReturnsTrue);
  // The arrows are the list's: without this they would take the focus from what is typed.
  for (const ImGuiKey key : {ImGuiKey_DownArrow, ImGuiKey_UpArrow}) ImGui::SetItemKeyOwner(key);
  if (opened || words_ != before) {
    chosen_ = 0;
    all_ = commands;
    for (auto&& more : {commands_about(context, words_, openable_), about(words_)}) {
      all_.insert(all_.end(), more.begin(), more.end());
    }
  }
  const auto found = matching(all_, words_);
  const int last = std::max(0, static_cast<int>(found.size()) - 1);
  const int before_it = chosen_;
  if (ImGui::IsKeyPressed(ImGuiKey_DownArrow)) chosen_ = std::min(chosen_ + 1, last);
  if (ImGui::IsKeyPressed(ImGuiKey_UpArrow)) chosen_ = std::max(chosen_ - 1, 0);
  walked_ = opened || words_ != before || chosen_ != before_it;
  draw_list(context, found);
  if (ImGui::IsKeyPressed(ImGuiKey_Escape)) {
    context.window.palette_open = false;
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndPopup();
}

}  // namespace phasescope::app
