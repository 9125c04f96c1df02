#include "app/views/theory_view.h"

#include <algorithm>

#include "app/figures/figures.h"
#include "app/outputs/result_tables.h"
#include "app/views/controls_room.h"
#include "app/views/kept_tables.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::CheckResult;

using TheoryAnswers = ShownAnswers<protocol::TheoryResult>;

const std::vector<std::string>& verdict_names() {
  static const std::vector<std::string> names{"all verdicts", "holds", "fails", "premise_not_met",
                                              "undecided"};
  return names;
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

widgets::TableCell::Tone tone_of(const std::string& verdict) {
  using Tone = widgets::TableCell::Tone;
  if (verdict == "holds") return Tone::good;
  if (verdict == "fails") return Tone::bad;
  return verdict == "premise_not_met" ? Tone::quiet : Tone::warn;
}

// How why a check ended so begins, where it did not hold; the whole is shown below and on hover.
std::string reason_of(const CheckResult& check) {
  constexpr std::size_t kShown = 44;
  if (check.verdict == "holds") return "";
  const std::size_t end = std::min(check.detail.find(". "), check.detail.find('\n'));
  std::string words = check.detail.substr(0, end);
  if (words.size() <= kShown) return words;
  const std::size_t space = words.rfind(' ', kShown);
  return words.substr(0, space == std::string::npos ? kShown : space) + " ...";
}

widgets::TableSpec table_of_checks(const std::vector<const CheckResult*>& checks,
                                   const ModelNames& names) {
  widgets::TableSpec table{.id = "checks"};
  table.columns = {{.title = "check", .numbers = false},
                   {.title = "model", .numbers = false},
                   {.title = "verdict", .numbers = false},
                   {.title = "why", .help = "the whole is below", .numbers = false},
                   {.title = "value"},
                   {.title = "bound"},
                   {.title = "noise", .help = "what chance or rounding alone makes of it"},
                   {.title = "samples"}};
  for (const CheckResult* check : checks) {
    auto id = widgets::words_cell_of(check->id), why = widgets::words_cell_of(reason_of(*check));
    id.help = check->statement, why.help = check->detail;
    auto verdict = widgets::words_cell_of(verdict_of(check->verdict).words);
    verdict.tone = tone_of(check->verdict);
    const auto number = [](const std::optional<double>& value) {
      return value ? widgets::number_cell_of(*value) : widgets::TableCell{};
    };
    table.rows.push_back(
        {std::move(id),
         widgets::words_cell_of(names.short_name(check->model), names.color(check->model)),
         std::move(verdict), std::move(why), number(check->value), number(check->bound),
         number(check->noise), widgets::number_cell_of(static_cast<double>(check->samples))});
  }
  return table;
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
  if (color) {
    ImGui::TextColored(*color, "%s", words.c_str());
  } else {
    ImGui::TextUnformatted(words.c_str());
  }
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
  context.requests.ask(context.requests.of(kTheoryChecks), protocol::TheoryListRequest{});
  const auto options = context.state<TheoryState>().options;
  // Each check reads what it is made for, or the corpus that was chosen.
  ask_of_all(context, kTheory, [&](const std::string& model, const TextInput&) {
    return with_choices(protocol::TheoryRequest{.models = {model}}, options);
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
  for (const CheckResult& check : all.checks) {
    for (widgets::PlotSpec& plot : check_figures(check, names_of(context.session()))) {
      output.figures.push_back(std::move(plot));
    }
  }
  output.result = protocol::to_json_form(all);
  output.provenance = provenance_of(all);
  return {{"", std::move(output), command_of<protocol::TheoryRequest>(answers.asked())}};
}

// Those of the verdict that is listed, in the order of the models.
TheoryView::Checks TheoryView::listed(const ViewContext& context) const {
  const std::string verdict = context.state<TheoryState>().verdict;
  Checks checks;
  for (const auto* answer : shown_answers(context, kTheory).list) {
    for (const CheckResult& check : answer->result.checks) {
      if (verdict.empty() || check.verdict == verdict) checks.push_back(&check);
    }
  }
  return checks;
}

const CheckResult& TheoryView::shown_check(const ViewContext& context, const Checks& checks) {
  const std::string chosen = context.state<TheoryState>().check;
  const auto found = std::ranges::find_if(
      checks, [&](const CheckResult* check) { return name_of_check(*check) == chosen; });
  return found == checks.end() ? *checks.front() : **found;
}

void TheoryView::draw_list(ViewContext& context, const Checks& checks) {
  const auto state = context.state<TheoryState>();
  const CheckResult* shown = &shown_check(context, checks);
  const std::string key = shown_answers(context, kTheory).key(context) + state.verdict;
  const auto& table =
      rows_.get(key, [&] { return table_of_checks(checks, names_of(context.session())); });
  const auto of = [&](int row) -> const CheckResult& {
    return *checks[static_cast<std::size_t>(row)];
  };
  widgets::TableDraw options;
  options.version = rows_.version();
  options.hint = "Search, or a condition: noise>1e-6";
  options.selected = [&](int row) { return &of(row) == shown; };
  options.menu = [&](int) { draw_menu_items(context); };
  const auto drawn = draw_kept_table(context, id(), table_, table, options);
  if (drawn.clicked < 0) return;
  auto chosen = state;
  chosen.check = name_of_check(of(drawn.clicked));
  context.set_state("Show a check", chosen, "check");
}

// A tick for each check that there is; without any all of them are run.
bool TheoryView::draw_choice_of_checks(const ViewContext& context, TheoryState& state) {
  const auto* known = context.requests.of(kTheoryChecks).answer();
  if (!known) return false;
  const auto request = with_choices(protocol::TheoryRequest{}, state.options);
  std::vector<std::string> chosen = request.check;
  const std::string words =
      chosen.empty() ? "all checks" : std::to_string(chosen.size()) + " chosen";
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 8);
  if (!ImGui::BeginCombo("##checks", words.c_str(), ImGuiComboFlags_HeightLarge)) return false;
  bool changed = false;
  if (ImGui::Selectable("all checks", chosen.empty(), ImGuiSelectableFlags_NoAutoClosePopups)) {
    chosen.clear(), changed = true;
  }
  for (const protocol::CheckInfo& check : known->result.checks) {
    const auto found = std::ranges::find(chosen, check.id);
    bool on = found != chosen.end();
    if (ImGui::Checkbox(check.id.c_str(), &on)) {
      if (on) {
        chosen.push_back(check.id);
      } else {
        chosen.erase(found);
      }
      changed = true;
    }
    tooltip(check.title + "\n" + check.statement + "\nneeds: " + check.needs);
  }
  ImGui::EndCombo();
  if (!changed) return false;
  if (chosen.empty()) {
    state.options.erase("check");
  } else {
    state.options["check"] = chosen;
  }
  return true;
}

void TheoryView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<TheoryState>();
  bool changed = draw_choice_of_checks(context, state);
  if (context.requests.of(kTheoryChecks).answer()) ImGui::SameLine();
  std::string verdict = state.verdict.empty() ? verdict_names().front() : state.verdict;
  if (draw_choice("##verdict", verdict, verdict_names())) {
    state.verdict = verdict == verdict_names().front() ? "" : verdict;
    changed = true;
  }
  next_control(6 * ImGui::GetFontSize());
  changed |= form_.draw<protocol::TheoryRequest>(state.options, TheoryState{}.options,
                                                 {"check", "device", "threads"});
  if (changed) context.set_state("Change the checks", state, "checks");
  draw_tools(context);
}

void TheoryView::draw_check(ViewContext& context, const CheckResult& check) {
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::Text("%s on %s", check.id.c_str(), short_name(context.session(), check.model).c_str());
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::Dummy({4, 0});
  ImGui::SameLine();
  draw_verdict(check.verdict);
  paragraph(check.statement);
  paragraph(check.source, &widgets::palette().quiet);
  const std::string numbers = measured_numbers(check);
  if (!numbers.empty()) paragraph(numbers + ", seed " + std::to_string(check.seed));
  paragraph(check.detail);
  const std::string key = shown_answers(context, kTheory).key(context);
  const auto& plots = plots_.get(key + name_of_check(check),
                                 [&] { return check_figures(check, names_of(context.session())); });
  grid_.draw(plots, plots_.version(), {.titles = false},
             [&](const widgets::PlotSpec& plot, widgets::PlotDraw options) {
               draw_figure(context, plot, std::move(options));
             });
}

void TheoryView::draw_content(ViewContext& context) {
  const auto answers = shown_answers(context, kTheory);
  const Checks checks = listed(context);
  draw_controls(context);
  if (context.models() == 0) return widgets::draw_empty("Tick models to check the theory on them.");
  draw_questions(context, kTheory);
  if (answers.empty()) return;
  if (checks.empty()) return widgets::draw_empty("No check ended with this verdict.");
  const float height = ImGui::GetContentRegionAvail().y;
  const ImVec2 size{0, std::max(ImGui::GetFontSize() * 12, height * 0.45F)};
  if (ImGui::BeginChild("list", size, ImGuiChildFlags_NavFlattened)) {
    const Dimmed dimmed(answers.old);
    draw_list(context, checks);
  }
  ImGui::EndChild();
  ImGui::Separator();
  // What has no room is scrolled to with the view: a part that scrolls alone would cut its figure.
  const Dimmed dimmed(answers.old);
  draw_check(context, shown_check(context, checks));
}

}  // namespace phasescope::app
