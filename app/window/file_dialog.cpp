#include "app/window/file_dialog.h"

#include <imgui.h>
#include <imgui_internal.h>
#include <misc/cpp/imgui_stdlib.h>

#include <utility>

#include "app/cli/output.h"
#include "app/window/commands.h"
#include "app/window/dialog.h"
#include "formats/error.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
// Two titles, one identity.
constexpr const char* kModelTitle = "Open a model###open";
constexpr const char* kTextTitle = "Open a text###open";
// The title, what can be opened, its path, what went wrong and the buttons.
constexpr float kLinesAroundEntries = 5.5F;

}  // namespace

bool FileDialog::is_far(const ViewContext& context) {
  return !context.window.remote.empty() && context.window.open_dialog == "model";
}

void FileDialog::enter(ViewContext& context, const fs::path& folder) {
  trouble_.clear();
  if (is_far(context)) {
    auto& question = context.requests.of(kFolder);
    if (question.failed()) context.requests.retry(question);
    return context.requests.ask(question, protocol::FolderRequest{.path = folder.string()});
  }
  try {
    here_ = {folder, formats::listed_entries(folder, formats::ListedNames::of_bytes_too)};
    path_ = folder.string();
  } catch (const formats::Error& error) {
    trouble_ = error.full_text();
  }
}

// What the worker has told of its folders since.
void FileDialog::take_answer(ViewContext& context) {
  if (!is_far(context)) return;
  auto& question = context.requests.of(kFolder);
  if (question.failed()) trouble_ = question.error().message;
  const auto* answer = question.answer();
  if (!answer || answer->serial == far_serial_) return;
  far_serial_ = answer->serial;
  far_ = {answer->result.path, {}};
  for (const protocol::FolderEntry& entry : answer->result.entries) {
    far_.entries.push_back({entry.name, entry.folder});
  }
  path_ = answer->result.path;
}

void FileDialog::choose(ViewContext& context, const fs::path& path) {
  try {
    if (context.window.open_dialog == "text") {
      read_text_file_into(context, path.string());
    } else {
      open_model(context, path.string());
    }
    context.window.open_dialog.clear();
    ImGui::CloseCurrentPopup();
  } catch (const formats::Error& error) {
    trouble_ = error.full_text();
  }
}

void FileDialog::draw_entries(ViewContext& context) {
  if (ImGui::BeginChild("entries", {0, list_height(22, kLinesAroundEntries)},
                        ImGuiChildFlags_Borders | ImGuiChildFlags_NavFlattened)) {
    const Place& now = place(context);
    fs::path next;
    // A click selects and a second one enters; Enter does both, and the space bar selects alone.
    const bool by_key = ImGui::IsKeyPressed(ImGuiKey_Enter, false) ||
                        ImGui::IsKeyPressed(ImGuiKey_KeypadEnter, false);
    if (ImGui::Selectable("..", false, ImGuiSelectableFlags_NoAutoClosePopups)) {
      next = now.folder.parent_path();
    }
    if (std::exchange(at_first_, false)) ImGui::FocusItem();
    for (const formats::ListedEntry& entry : now.entries) {
      // Its own bytes tell it from one whose name looks the same.
      const std::string label = for_terminal(entry.name, Breaks::escaped) +
                                (entry.folder ? "/" : "") + "###" + entry.name;
      const fs::path path = now.folder / entry.name;
      const auto flags =
          ImGuiSelectableFlags_AllowDoubleClick | ImGuiSelectableFlags_NoAutoClosePopups;
      if (!ImGui::Selectable(label.c_str(), path == path_, flags)) continue;
      path_ = path.string();
      if (!by_key && !ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) continue;
      if (entry.folder) {
        next = path;
      } else {
        choose(context, path);
      }
    }
    at_first_ = !next.empty() && by_key;  // the entry that had the focus is of another folder
    if (!next.empty()) enter(context, next);
  }
  ImGui::EndChild();
}

// A model is a folder or a file, and desktops have a chooser for each.
void FileDialog::draw_native(ViewContext& context, bool text) {
  if (!NativeDialog::available() || is_far(context)) return;
  ImGui::SameLine(0, ImGui::GetFontSize() * 2);
  const char* title = text ? "Open a text" : "Open a model";
  if (ImGui::Button("Desktop's chooser...")) {
    native_.open(NativeDialog::Kind::file, title, here_.folder.string());
  }
  if (!text) {
    ImGui::SameLine();
    if (ImGui::Button("... of folders")) {
      native_.open(NativeDialog::Kind::folder, title, here_.folder.string());
    }
  }
  context.window.moving = context.window.moving || native_.is_open();
  if (const auto chosen = native_.take(); chosen && !chosen->empty()) choose(context, *chosen);
}

void FileDialog::draw(ViewContext& context) {
  if (context.window.open_dialog.empty()) return;
  if (!ImGui::IsPopupOpen(kTextTitle)) {
    ImGui::OpenPopup(kTextTitle);
    std::error_code error;
    const fs::path& last = place(context).folder;
    enter(context, last.empty() && !is_far(context) ? fs::current_path(error) : last);
  }
  take_answer(context);
  const bool text = context.window.open_dialog == "text";
  place_dialog(40, 0, ImGuiCond_Always);
  bool open = true;
  if (!ImGui::BeginPopupModal(text ? kTextTitle : kModelTitle, &open,
                              ImGuiWindowFlags_NoSavedSettings)) {
    context.window.open_dialog.clear();  // closed with its cross
    return;
  }
  ImGui::TextColored(
      widgets::palette().quiet, "%s",
      text ? "A text file (UTF-8)"
           : "A folder with config.json, a .safetensors, .gguf or .bin file, or a job");
  if (is_far(context)) {
    ImGui::SameLine();
    ImGui::TextColored(widgets::palette().accent, "on %s", context.window.remote.c_str());
  }
  if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  const bool entered = ImGui::InputText("##path", &path_, ImGuiInputTextFlags_EnterReturnsTrue);
  draw_entries(context);
  say_trouble(for_terminal(trouble_));
  if (ImGui::Button("Open") || entered) choose(context, path_);
  ImGui::SameLine();
  if (ImGui::Button("Cancel") || ImGui::IsKeyPressed(ImGuiKey_Escape)) {
    context.window.open_dialog.clear();
    ImGui::CloseCurrentPopup();
  }
  draw_native(context, text);
  ImGui::EndPopup();
}

}  // namespace phasescope::app
