#include "app/views/theory_view.h"

#include <algorithm>

#include "app/figures/figures.h"
#include "app/verbs/verb_tools.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::CheckResult;

using TheoryAnswers = ShownAnswers<protocol::TheoryResult>;

std::vector<const CheckResult*> checks_of(const TheoryAnswers& answers) {
  std::vector<const CheckResult*> checks;
  for (const auto* answer : answers.list)
    for (const CheckResult& check : answer->result.checks) checks.push_back(&check);
  return checks;
}

// Names a check of one model in the session.
std::string name_of_check(const CheckResult& check) { return check.id + " " + check.model; }

struct Shown {
  const char* words;
  ImVec4 color;
};

Shown verdict_of(const std::string& verdict) {
  const auto& colors = widgets::palette();
  if (verdict == "holds") return {"holds", colors.good};
  if (verdict == "fails") return {"fails", colors.bad};
  if (verdict == "premise_not_met") return {"premise not met", colors.quiet};
  return {"undecided", colors.warn};
}

void draw_verdict(const std::string& verdict) {
  const Shown shown = verdict_of(verdict);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size = ImGui::CalcTextSize(shown.words);
  ImVec4 ground = shown.color;
  ground.w = 0.14F;
  ImGui::GetWindowDrawList()->AddRectFilled({at.x - 4, at.y - 1},
                                            {at.x + size.x + 4, at.y + size.y + 1},
                                            ImGui::ColorConvertFloat4ToU32(ground), 4);
  ImGui::TextColored(shown.color, "%s", shown.words);
}

void paragraph(const std::string& words, const ImVec4* color = nullptr) {
  if (words.empty()) return;
  ImGui::PushTextWrapPos(0.0F);
  if (color)
    ImGui::TextColored(*color, "%s", words.c_str());
  else
    ImGui::TextUnformatted(words.c_str());
  ImGui::PopTextWrapPos();
}

}  // namespace

std::string TheoryView::help_text() const {
  return "Statements of the papers, measured on the open models. A verdict is: holds, fails, "
         "premise not met (the statement does not speak about this model; the detail says why), or "
         "undecided (too much noise; the detail says how many samples would decide). Each carries "
         "its number, its bound and its noise.";
}

void TheoryView::ask(ViewContext& context) {
  ask_of_all(context, kTheory, [](const std::string& model, const TextInput&) {
    return protocol::TheoryRequest{.models = {model}};
  });
}

std::vector<Saved> TheoryView::saved(ViewContext& context) {
  const auto answers = shown_answers(context, kTheory);
  protocol::TheoryResult all;
  Output output;
  for (const auto* answer : answers.list) {
    const protocol::TheoryResult& one = answer->result;
    all.checks.insert(all.checks.end(), one.checks.begin(), one.checks.end());
    all.provenance.insert(all.provenance.end(), one.provenance.begin(), one.provenance.end());
  }
  for (const CheckResult& check : all.checks)
    for (widgets::PlotSpec& plot : check_figures(check, names_of(context.session())))
      output.figures.push_back(std::move(plot));
  output.result = protocol::to_json_form(all);
  output.provenance = provenance_of(all);
  return {{"", std::move(output), command_of<protocol::TheoryRequest>(answers.asked())}};
}

void TheoryView::draw_list(ViewContext& context, const std::vector<const CheckResult*>& checks) {
  const ImGuiTableFlags flags =
      ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_ScrollY;
  if (!ImGui::BeginTable("checks", 6, flags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* name : {"check", "model", "verdict", "value", "bound", "samples"})
    ImGui::TableSetupColumn(name);
  ImGui::TableHeadersRow();
  const std::string chosen = context.state<TheoryState>().check;
  for (const CheckResult* check : checks) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushID(check);
    const std::string name = name_of_check(*check);
    if (ImGui::Selectable(check->id.c_str(), chosen == name, ImGuiSelectableFlags_SpanAllColumns))
      context.set_state("Show a check", TheoryState{name}, "check");
    tooltip(check->statement);
    ImGui::PopID();
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(short_name(context.session(), check->model).c_str());
    tooltip(check->model);
    ImGui::TableNextColumn();
    draw_verdict(check->verdict);
    // Nothing was measured: zeros would look like numbers.
    if (check->samples == 0) continue;
    for (double value : {check->value, check->bound}) {
      ImGui::TableNextColumn();
      ImGui::TextUnformatted(widgets::short_number(value).c_str());
    }
    ImGui::TableNextColumn();
    ImGui::Text("%lld", static_cast<long long>(check->samples));
  }
  ImGui::EndTable();
}

void TheoryView::draw_check(const ViewContext& context, const CheckResult& check) {
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::Text("%s on %s", check.id.c_str(), short_name(context.session(), check.model).c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::Dummy({4, 0});
  ImGui::SameLine();
  draw_verdict(check.verdict);
  paragraph(check.statement);
  paragraph(check.source, &widgets::palette().quiet);
  if (check.samples > 0)
    paragraph("value " + widgets::short_number(check.value) + ", bound " +
              widgets::short_number(check.bound) + ", noise " + widgets::short_number(check.noise) +
              ", " + std::to_string(check.samples) + " samples, seed " +
              std::to_string(check.seed));
  paragraph(check.detail);
  const std::string key = shown_answers(context, kTheory).key(context);
  const auto& plots = plots_.get(key + name_of_check(check),
                                 [&] { return check_figures(check, names_of(context.session())); });
  for (const widgets::PlotSpec& plot : plots) {
    ImGui::PushID(&plot);
    widgets::PlotDraw options;
    options.version = plots_.version();
    options.size = {-1, ImGui::GetFontSize() * 14};
    widgets::draw_plot(plot, options);
    ImGui::PopID();
  }
}

void TheoryView::draw_content(ViewContext& context) {
  ImGui::AlignTextToFramePadding();
  const auto answers = shown_answers(context, kTheory);
  const auto checks = checks_of(answers);
  ImGui::Text("%d checks", static_cast<int>(checks.size()));
  draw_tools(context);
  if (context.models() == 0) return widgets::draw_empty("Tick models to check the theory on them.");
  draw_questions(context, kTheory);
  if (checks.empty()) return;
  const float height = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginChild("list", {0, height * 0.45F})) {
    const Dimmed dimmed(answers.old);
    draw_list(context, checks);
  }
  ImGui::EndChild();
  ImGui::Separator();
  const auto found = std::find_if(checks.begin(), checks.end(), [&](const CheckResult* check) {
    return name_of_check(*check) == context.state<TheoryState>().check;
  });
  if (ImGui::BeginChild("check")) {
    const Dimmed dimmed(answers.old);
    draw_check(context, found == checks.end() ? *checks.front() : **found);
  }
  ImGui::EndChild();
}

}  // namespace phasescope::app
