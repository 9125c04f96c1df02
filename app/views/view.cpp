#include "app/views/view.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "app/window/commands.h"
#include "app/window/session_requests.h"
#include "protocol/error_info.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

constexpr const char* kFigureFolder = "phasescope-figures";

void collect_provenance(const nlohmann::json& value, nlohmann::json& found) {
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) {
    if (key == "provenance")
      found.push_back(item);
    else
      collect_provenance(item, found);
  }
}

// A quiet word that acts like a link.
bool link(const char* word) {
  ImGui::PushStyleColor(ImGuiCol_Button, ImVec4(0, 0, 0, 0));
  ImGui::PushStyleColor(ImGuiCol_Text, widgets::palette().quiet);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {4, ImGui::GetStyle().FramePadding.y});
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, 0);
  const bool pressed = ImGui::Button(word);
  ImGui::PopStyleVar(2);
  ImGui::PopStyleColor(2);
  return pressed;
}

float link_width(const char* word) { return ImGui::CalcTextSize(word).x + 8; }

}  // namespace

void View::draw(ViewContext& context) {
  bool open = true;
  const ImGuiWindowFlags flags = ImGuiWindowFlags_NoCollapse;
  visible_ = ImGui::Begin(window_name().c_str(), &open, flags);
  if (visible_) {
    ask_what_changed(context);
    if (about_models())
      for (std::size_t i = 0; i < context.models(); ++i)
        if (auto& info = context.of(i).info; info.waiting() && !info.answer())
          draw_question(context, info, short_name(context.session(), context.session().models[i]));
    draw_content(context);
  }
  ImGui::End();
  if (!open)
    context.edit.apply("Close " + title(), [&](Session& s) { s.closed_views.push_back(id()); });
}

void View::ask_what_changed(ViewContext& context) {
  if (!context.window.may_ask) return;
  const bool changed = context.edit.revision() != asked_revision_ ||
                       context.requests.generation() != asked_generation_;
  if (!changed) return;
  asked_generation_ = context.requests.generation();  // which grows when the last model is known
  const bool ready = !about_models() || context.models_known();
  if (ready && about_models()) fit_selection(context);
  asked_revision_ = context.edit.revision();
  if (ready) ask(context);
}

// Of the selected model where the open ones do not read the same.
std::string View::command_of(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  return command_line(model.empty() ? context.session() : context.session_for(model));
}

void View::copy_command(ViewContext& context, const std::string& command) {
  if (context.window.copy) context.window.copy(command);
  context.window.say("Copied: " + command);
}

// Where the line is full the tools fold into a menu.
void View::draw_tool_menu(ViewContext& context, const std::string& command) {
  if (link("...")) ImGui::OpenPopup("tools");
  if (!ImGui::BeginPopup("tools")) return;
  if (has_figures() && ImGui::MenuItem("Save these figures")) save(context);
  if (ImGui::MenuItem("Copy the command")) copy_command(context, command);
  ImGui::EndPopup();
}

void View::draw_command_tools(ViewContext& context, const std::string& command, bool folded) {
  if (command.empty()) return;
  if (folded) {
    draw_tool_menu(context, command);
    ImGui::SameLine(0, 0);
    return;
  }
  if (has_figures()) {
    if (link("Save")) save(context);
    tooltip("Save these figures as SVG, PNG, CSV and JSON, which says how they were made");
    ImGui::SameLine(0, 0);
  }
  if (link("Command")) copy_command(context, command);
  tooltip("Copy the command line that gives the same:\n" + command);
  ImGui::SameLine(0, 0);
}

void View::draw_tools(ViewContext& context) {
  const std::string command = command_of(context), ran = kernels(context);
  ImGui::SameLine();
  const float room = ImGui::GetContentRegionAvail().x;
  float width = link_width("?");
  const float words = link_width("Command") + (has_figures() ? link_width("Save") : 0);
  const bool folded = width + words > room;
  if (!command.empty()) width += folded ? link_width("...") : words;
  const float ran_width =
      ran.empty() ? 0 : ImGui::CalcTextSize(ran.c_str()).x + ImGui::GetFontSize();
  const bool fits = width + ran_width <= room;
  if (fits) width += ran_width;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0F, room - width));
  if (fits && !ran.empty()) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextColored(kernel_color(ran), "%s", ran.c_str());
    tooltip("What ran attention");
    ImGui::SameLine(0, ImGui::GetFontSize());
  }
  draw_command_tools(context, command, folded);
  link("?");
  tooltip(help_text() + (ran.empty() ? "" : "\n\nAttention was run by: " + ran));
  if (fits || !fell_back(ran)) return;
  ImGui::PushTextWrapPos(0.0F);
  ImGui::TextColored(kernel_color(ran), "%s", ran.c_str());
  ImGui::PopTextWrapPos();
}

void View::save(ViewContext& context) {
  Output output = exported(context);
  if (output.figures.empty() && output.grids.empty()) {
    context.window.say("There is nothing to save yet");
    return;
  }
  nlohmann::json found = nlohmann::json::array();
  collect_provenance(output.result, found);
  const nlohmann::json sidecar{{"command", command_of(context)},
                               {"program", "phasescope"},
                               {"provenance", std::move(found)}};
  const std::string folder = std::string(kFigureFolder) + "/" + id();
  context.window.run_aside([output = std::move(output), sidecar, folder] {
    export_output(output, folder, sidecar);
    return "Saved to " + folder;
  });
}

void draw_question(ViewContext& context, Question& question, const std::string& who) {
  widgets::BusySpec spec = context.requests.busy(question);
  if (spec.state == widgets::BusyState::idle || spec.state == widgets::BusyState::answered) return;
  if (!who.empty()) spec.text = who + ": " + spec.text;
  if (question.failed() && question.error().code == protocol::error_code::not_applicable) {
    ImGui::PushStyleColor(ImGuiCol_Text, widgets::palette().quiet);
    ImGui::TextWrapped("%s", spec.text.c_str());
    ImGui::PopStyleColor();
    return;
  }
  ImGui::PushID(&question);
  const widgets::BusyAction action = widgets::draw_busy(spec);
  ImGui::PopID();
  if (action == widgets::BusyAction::cancel) context.requests.cancel(question);
  if (action == widgets::BusyAction::retry) context.requests.retry(question);
}

std::string kernel_words(std::vector<ModelKernel> models) {
  std::erase_if(models, [](const ModelKernel& model) {
    return model.kernel.empty() || model.kernel == "none";
  });
  if (models.empty()) return "";
  const auto first = [&](const ModelKernel& one) { return one.kernel == models.front().kernel; };
  if (std::ranges::all_of(models, first)) return models.front().kernel;
  std::set<std::string> said;
  std::string words;
  for (const ModelKernel& model : models) {
    const std::string one = model.model + ": " + model.kernel;
    if (said.insert(one).second) words += (words.empty() ? "" : "; ") + one;
  }
  return words;
}

bool fell_back(const std::string& words) {
  constexpr std::string_view kPlain = "plain (", kFloat64 = "plain (Double has no ";
  for (std::size_t at = words.find(kPlain); at != std::string::npos;
       at = words.find(kPlain, at + 1)) {
    if (words.compare(at, kFloat64.size(), kFloat64) != 0) return true;
  }
  return false;
}

const ImVec4& kernel_color(const std::string& words) {
  return fell_back(words) ? widgets::palette().warn : widgets::palette().quiet;
}

bool draw_choice(const char* label, std::string& value, const std::vector<std::string>& words,
                 float width) {
  if (width <= 0) {
    for (const std::string& word : words)
      width = std::max(width, ImGui::CalcTextSize(word.c_str()).x);
    width += ImGui::GetFrameHeight() + ImGui::GetStyle().FramePadding.x * 2;
  }
  ImGui::SetNextItemWidth(width);
  bool changed = false;
  if (!ImGui::BeginCombo(label, value.c_str())) return false;
  for (const std::string& word : words)
    if (ImGui::Selectable(word.c_str(), word == value)) {
      changed = word != value;
      value = word;
    }
  ImGui::EndCombo();
  return changed;
}

void draw_model_name(const Session& session, std::size_t index) {
  const float side = ImGui::GetFontSize() * 0.62F;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float top = at.y + (ImGui::GetTextLineHeight() - side) / 2;
  ImGui::GetWindowDrawList()->AddRectFilled(
      {at.x, top}, {at.x + side, top + side},
      ImGui::ColorConvertFloat4ToU32(widgets::series_vec(static_cast<int>(index))), 2);
  ImGui::Dummy({side, ImGui::GetTextLineHeight()});
  ImGui::SameLine(0, side * 0.6F);
  const std::string& model = session.models[index];
  const std::string name = short_name(session, model);
  ImGui::TextUnformatted(name.c_str());
  if (name != model) tooltip(model);
}

int color_of_model(const Session& session, const std::string& model) {
  const auto found = std::find_if(
      session.models.begin(), session.models.end(),
      [&](const std::string& name) { return name == model || short_name(session, name) == model; });
  return static_cast<int>(found - session.models.begin());
}

void tooltip(const std::string& words) {
  if (words.empty() || !ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip)) return;
  if (!ImGui::BeginTooltip()) return;
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 30);
  ImGui::TextUnformatted(words.c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void number_cell(double value) {
  const std::string words = widgets::short_number(value);
  const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(words.c_str()).x;
  if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
  ImGui::TextUnformatted(words.c_str());
}

}  // namespace phasescope::app
