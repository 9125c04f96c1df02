#include "app/views/theory_view.h"

#include <algorithm>

#include "app/figures/figures.h"
#include "app/window/session_requests.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::CheckResult;

std::vector<const CheckResult*> checks_of(const ViewContext& context) {
  std::vector<const CheckResult*> checks;
  for (std::size_t i = 0; i < context.models(); ++i)
    if (const auto* answer = context.of(i).theory.answer())
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

std::string TheoryView::command_line(const Session& session) const {
  return session.models.empty() ? "" : verb_line(session, "theory");
}

void TheoryView::ask(ViewContext& context) {
  for (const std::string& model : context.session().models)
    context.requests.ask(context.requests.of(model).theory,
                         theory_params(context.session(), model));
}

Output TheoryView::exported(ViewContext& context) {
  Output output;
  for (const CheckResult* check : checks_of(context)) {
    output.result["checks"].push_back(protocol::to_json_form(*check));
    for (const auto& curve : check->curves) output.figures.push_back(check_figure(*check, curve));
  }
  return output;
}

void TheoryView::draw_list(ViewContext& context, const std::vector<const CheckResult*>& checks) {
  const ImGuiTableFlags flags =
      ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_ScrollY;
  if (!ImGui::BeginTable("checks", 6, flags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const char* name : {"check", "model", "verdict", "value", "bound", "samples"})
    ImGui::TableSetupColumn(name);
  ImGui::TableHeadersRow();
  for (const CheckResult* check : checks) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushID(check);
    const std::string name = name_of_check(*check);
    if (ImGui::Selectable(check->id.c_str(), context.session().theory.check == name,
                          ImGuiSelectableFlags_SpanAllColumns))
      context.edit.apply(
          "Show a check", [&](Session& s) { s.theory.check = name; }, "check");
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

void TheoryView::draw_check(const CheckResult& check) {
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::Text("%s on %s", check.id.c_str(), check.model.c_str());
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
  const auto& plots = plots_.get(name_of_check(check) + widgets::short_number(check.value), [&] {
    std::vector<widgets::PlotSpec> made;
    for (const auto& curve : check.curves) made.push_back(check_figure(check, curve));
    return made;
  });
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
  const auto checks = checks_of(context);
  ImGui::Text("%d checks", static_cast<int>(checks.size()));
  draw_tools(context);
  if (context.models() == 0) return widgets::draw_empty("Tick models to check the theory on them.");
  for (std::size_t i = 0; i < context.models(); ++i)
    draw_question(context, context.of(i).theory,
                  short_name(context.session(), context.session().models[i]));
  if (checks.empty()) return;
  const float height = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginChild("list", {0, height * 0.45F})) draw_list(context, checks);
  ImGui::EndChild();
  ImGui::Separator();
  const auto found = std::find_if(checks.begin(), checks.end(), [&](const CheckResult* check) {
    return name_of_check(*check) == context.session().theory.check;
  });
  if (ImGui::BeginChild("check")) draw_check(found == checks.end() ? *checks.front() : **found);
  ImGui::EndChild();
}

}  // namespace phasescope::app
