#include "app/window/export_dialog.h"

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>

#include "app/window/dialog.h"
#include "app/window/session_file.h"
#include "formats/error.h"
#include "widgets/busy.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExportTitle = "Save figures";
// Between a stamp and a poster.
constexpr std::int64_t kLeastPixels = 120, kMostPixels = 8000, kLeastDpi = 36, kMostDpi = 1200;

void quiet_words(const std::string& words) {
  widgets::draw_paragraph(words, widgets::palette().quiet);
}

void number_field(const char* label, std::int64_t& value, std::int64_t least, std::int64_t most) {
  int number = static_cast<int>(value);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 6);
  ImGui::InputInt(label, &number, 0);
  value = std::clamp<std::int64_t>(number, least, most);
}

void choice(const char* label, std::string& value, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) ImGui::SameLine();
    if (ImGui::RadioButton(words[i].c_str(), value == words[i])) value = words[i];
  }
  ImGui::SameLine();
  ImGui::TextColored(widgets::palette().quiet, "%s", label);
}

}  // namespace

std::vector<const FigureToSave*> ExportDialog::chosen() const {
  std::vector<const FigureToSave*> list;
  for (std::size_t i = 0; i < request_->figures.size(); ++i) {
    if (which_ < 0 || which_ == static_cast<int>(i)) list.push_back(&request_->figures[i]);
  }
  return list;
}

// A name that two of them have is numbered.
std::vector<std::string> ExportDialog::paths(const FigureForm& form) const {
  std::vector<std::string> all;
  const fs::path folder = whole_folder(form.folder);
  for (const FigureToSave* figure : chosen()) {
    const fs::path name = file_name_of(*figure, form);
    fs::path path = folder / name;
    for (int i = 2; std::ranges::find(all, path.string()) != all.end(); ++i) {
      path = folder / (name.stem().string() + "__" + std::to_string(i) + name.extension().string());
    }
    all.push_back(path.string());
  }
  return all;
}

void ExportDialog::draw_which() {
  const auto& figures = request_->figures;
  const std::string all = "all " + std::to_string(figures.size()) + " figures";
  const std::string now =
      which_ < 0 ? all : title_of(figures[static_cast<std::size_t>(which_)].figure);
  ImGui::SetNextItemWidth(-1);
  if (!ImGui::BeginCombo("##which", now.c_str(), ImGuiComboFlags_HeightLarge)) return;
  if (ImGui::Selectable(all.c_str(), which_ < 0)) which_ = -1;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    const int index = static_cast<int>(i);
    if (ImGui::Selectable(title_of(figures[i].figure).c_str(), which_ == index)) which_ = index;
    ImGui::PopID();
  }
  ImGui::EndCombo();
}

void ExportDialog::draw_form(FigureForm& form) {
  choice("", form.format, figure_formats());
  quiet_words(words_of_format(form.format));
  const bool drawn = form.format == "svg" || form.format == "pdf" || form.format == "png";
  if (!drawn) return;
  choice("page", form.theme, {"light", "dark"});
  number_field("##width", form.width, kLeastPixels, kMostPixels);
  ImGui::SameLine();
  ImGui::TextUnformatted("x");
  ImGui::SameLine();
  number_field("pixels of 1/96 inch", form.height, kLeastPixels, kMostPixels);
  if (form.format != "png") return;
  number_field("dots an inch", form.dpi, kLeastDpi, kMostDpi);
  ImGui::SameLine();
  ImGui::TextColored(widgets::palette().quiet, "%d x %d pixels of the file",
                     static_cast<int>(form.width * form.dpi / 96),
                     static_cast<int>(form.height * form.dpi / 96));
}

// True when a file is in the place already.
bool ExportDialog::draw_place(FigureForm& form) {
  ImGui::SetNextItemWidth(-ImGui::GetFontSize() * 4);
  ImGui::InputText("folder", &form.folder);
  int there = 0;
  const auto files = paths(form);
  std::error_code error;
  for (const std::string& path : files) {
    there += fs::exists(path, error) || fs::exists(sidecar_place(path), error);
  }
  quiet_words(files.size() == 1 ? files.front()
                                : std::to_string(files.size()) + " files, the first " + files[0]);
  if (there == 0) return false;
  ImGui::TextColored(widgets::palette().warn, "%d of them %s there already.", there,
                     there == 1 ? "is" : "are");
  return true;
}

void ExportDialog::write(ViewContext& context, const FigureForm& form) {
  const nlohmann::json session = session_for_figure(context.session());
  const auto files = paths(form);
  std::vector<FigureToSave> figures;
  for (const FigureToSave* figure : chosen()) figures.push_back(*figure);
  const std::string folder = whole_folder(form.folder).string();
  context.window.run_aside([=] {
    for (std::size_t i = 0; i < files.size(); ++i) {
      write_figure(formats::real_file_system(), files[i], figures[i], form, session);
    }
    const std::string what = files.size() == 1 ? files[0] : std::to_string(files.size()) + " files";
    return "Saved " + what + (files.size() == 1 ? "" : " in " + folder);
  });
}

void ExportDialog::draw_buttons(ViewContext& context, const FigureForm& form) {
  const bool one = chosen().size() == 1;
  ImGui::SameLine();
  ImGui::BeginDisabled(!one);
  if (ImGui::Button("Copy the numbers")) {
    FigureForm csv = form;
    csv.format = "csv";
    ImGui::SetClipboardText(figure_bytes(*chosen().front(), csv).c_str());
    context.window.say("Copied the numbers as CSV");
  }
  ImGui::EndDisabled();
  if (!one) ImGui::SetItemTooltip("Of one figure at a time");
  ImGui::SameLine();
  if (ImGui::Button("Cancel") || ImGui::IsKeyPressed(ImGuiKey_Escape)) {
    context.window.to_export.reset();
    ImGui::CloseCurrentPopup();
  }
}

void ExportDialog::draw(ViewContext& context) {
  if (!context.window.to_export) return;
  if (request_ != context.window.to_export) {
    request_ = context.window.to_export;
    which_ = request_->figures.size() == 1 ? 0 : -1;
    ImGui::OpenPopup(kExportTitle);
  }
  place_dialog(38, 0, ImGuiCond_Always);
  bool open = true;
  if (!ImGui::BeginPopupModal(kExportTitle, &open, ImGuiWindowFlags_NoSavedSettings)) {
    context.window.to_export.reset();
    return;
  }
  auto form = context.state<FigureForm>();
  ImGui::TextUnformatted(request_->title.c_str());
  draw_which();
  draw_form(form);
  const bool there = draw_place(form);
  if (ImGui::Button(there ? "Replace" : "Save")) {
    write(context, form);
    context.window.to_export.reset();
    ImGui::CloseCurrentPopup();
  }
  draw_buttons(context, form);
  ImGui::EndPopup();
  context.set_state("Save figures otherwise", form, "export form");
}

}  // namespace phasescope::app
