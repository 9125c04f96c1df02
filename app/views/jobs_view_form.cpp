// The Jobs view's form over all that a run configuration has, which starts a training.
#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>

#include <filesystem>

#include "app/views/jobs_view.h"
#include "formats/error.h"
#include "formats/json.h"
#include "widgets/busy.h"
#include "widgets/theme.h"

namespace phasescope::app {

namespace fs = std::filesystem;

void JobsView::start_training(ViewContext& context) {
  const auto state = context.state<JobsState>();
  start(context,
        {.kind = "train", .name = fs::path(state.source).stem().string(), .config = state.run});
}

void JobsView::load_source(ViewContext& context, JobsState& state, const std::string& path) {
  try {
    state.run = config_to_clone(formats::json_from_file(path));
    state.typed.clear(), lines_.forget();
  } catch (const formats::Error& error) {
    context.window.say(error.full_text(), true);
  }
}

// Where a new configuration begins; true where another one was taken.
bool JobsView::draw_source(ViewContext& context, JobsState& state) {
  bool changed = false;
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("begin with");
  ImGui::SameLine();
  std::string name = state.source;
  if (draw_choice("##source", name, configs_, ImGui::GetFontSize() * 11)) {
    state.source = name;
    load_source(context, state, (config_folder() / (name + ".json")).string());
    changed = true;
  }
  tooltip("A run configuration of sample_configs/; a job's Clone begins with its own");
  next_control(ImGui::GetFontSize() * 12);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 12);
  constexpr auto kEntered = ImGuiInputTextFlags_EnterReturnsTrue;
  const bool entered = ImGui::InputTextWithHint("##file", "or a file", &state.file, kEntered);
  changed |= ImGui::IsItemEdited();
  tooltip("The path of a run configuration");
  if (entered && !state.file.empty()) {
    state.source = state.file;
    load_source(context, state, state.file);
    changed = true;
  }
  return changed;
}

void JobsView::draw_form(ViewContext& context) {
  auto state = context.state<JobsState>();
  bool changed = draw_source(context, state);
  const auto& question = context.requests.of(kJobForm);
  const auto* answer = question.answer();
  const bool current = answer && question.answers_now();
  const bool fine = current && answer->result.problem.empty();
  next_control(button_width("Train"));
  ImGui::BeginDisabled(!fine || context.requests.of(kStart).waiting());
  if (ImGui::Button("Train")) start_training(context);
  tooltip("Starts it as a job of its own, which goes on without this window");
  ImGui::EndDisabled();
  if (fine) {
    const std::string words = widgets::short_number(double(answer->result.parameters)) +
                              " parameters, " +
                              widgets::short_number(double(answer->result.tokens)) + " tokens";
    next_control(ImGui::CalcTextSize(words.c_str()).x);
    ImGui::TextColored(widgets::palette().quiet, "%s", words.c_str());
  }
  if (current) widgets::draw_paragraph(answer->result.problem, widgets::palette().bad);
  if (question.failed()) draw_question(context, context.requests.of(kJobForm), "form");
  if (ImGui::BeginChild("fields", {0, 0}, ImGuiChildFlags_NavFlattened)) {
    if (answer) changed |= lines_.draw(answer->result, state.run, state.typed);
  }
  ImGui::EndChild();
  if (changed) return context.set_state("Change the configuration", state, "configuration");
  if (state.typed != context.state<JobsState>().typed) {  // no step of undo
    context.edit.apply_silently([&](Session& s) { s.views.set(state); });
  }
}

}  // namespace phasescope::app
