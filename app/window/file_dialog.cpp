#include "app/window/file_dialog.h"

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>

#include "app/window/commands.h"
#include "formats/error.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
// Two titles, one identity.
constexpr const char* kModelTitle = "Open a model###open";
constexpr const char* kTextTitle = "Open a text###open";

}  // namespace

void FileDialog::enter(const fs::path& folder) {
  std::error_code error;
  std::vector<Entry> found;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.empty() || name[0] == '.') continue;
    std::error_code ignored;
    found.push_back({name, entry.is_directory(ignored)});
  }
  trouble_ = error ? "This folder cannot be read: " + error.message() : "";
  if (error) return;
  std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) {
    return a.folder != b.folder ? a.folder : a.name < b.name;
  });
  entries_ = std::move(found);
  folder_ = folder;
  path_ = folder.string();
}

void FileDialog::choose(ViewContext& context, const fs::path& path) {
  try {
    if (context.window.open_dialog == "text")
      read_text_file_into(context, path.string());
    else
      open_model(context, path.string());
    context.window.open_dialog.clear();
    ImGui::CloseCurrentPopup();
  } catch (const formats::Error& error) {
    trouble_ = error.full_text();
  }
}

void FileDialog::draw_entries(ViewContext& context) {
  if (ImGui::BeginChild("entries", {0, ImGui::GetFontSize() * 22}, ImGuiChildFlags_Borders)) {
    if (ImGui::Selectable("..")) enter(folder_.parent_path());
    fs::path next;
    for (const Entry& entry : entries_) {
      const std::string label = entry.folder ? entry.name + "/" : entry.name;
      const fs::path path = folder_ / entry.name;
      const auto flags =
          ImGuiSelectableFlags_AllowDoubleClick | ImGuiSelectableFlags_NoAutoClosePopups;
      if (!ImGui::Selectable(label.c_str(), path == path_, flags)) continue;
      path_ = path.string();
      if (!ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) continue;
      if (entry.folder)
        next = path;
      else
        choose(context, path);
    }
    if (!next.empty()) enter(next);
  }
  ImGui::EndChild();
}

// A model is a folder or a file, and desktops have a chooser for each.
void FileDialog::draw_native(ViewContext& context, bool text) {
  if (!NativeDialog::available()) return;
  ImGui::SameLine(0, ImGui::GetFontSize() * 2);
  const char* title = text ? "Open a text" : "Open a model";
  if (ImGui::Button("Desktop's chooser..."))
    native_.open(NativeDialog::Kind::file, title, folder_.string());
  if (!text) {
    ImGui::SameLine();
    if (ImGui::Button("... of folders"))
      native_.open(NativeDialog::Kind::folder, title, folder_.string());
  }
  context.window.moving = context.window.moving || native_.is_open();
  if (const auto chosen = native_.take(); chosen && !chosen->empty()) choose(context, *chosen);
}

void FileDialog::draw(ViewContext& context) {
  if (context.window.open_dialog.empty()) return;
  if (!ImGui::IsPopupOpen(kTextTitle)) {
    ImGui::OpenPopup(kTextTitle);
    std::error_code error;
    enter(folder_.empty() ? fs::current_path(error) : folder_);
  }
  const bool text = context.window.open_dialog == "text";
  const ImGuiViewport* view = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos(view->GetCenter(), ImGuiCond_Appearing, {0.5F, 0.5F});
  ImGui::SetNextWindowSize({ImGui::GetFontSize() * 40, 0});
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
  ImGui::SetNextItemWidth(-1);
  const bool entered = ImGui::InputText("##path", &path_, ImGuiInputTextFlags_EnterReturnsTrue);
  draw_entries(context);
  if (!trouble_.empty()) ImGui::TextColored(widgets::palette().bad, "%s", trouble_.c_str());
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
