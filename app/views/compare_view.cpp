#include "app/views/compare_view.h"

#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>

#include "app/figures/intervals.h"
#include "app/outputs/result_tables.h"
#include "app/views/controls_room.h"
#include "app/views/heads_view.h"
#include "app/views/kept_tables.h"
#include "app/views/map_view.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::CompareResult;
using protocol::HeadMatch;
using widgets::PlotSpec;

constexpr const char* kSame = "same heads";
constexpr const char* kAlike = "heads most alike";
constexpr const char* kLoss = "loss by position";
constexpr const char* kOfOne = "heads of A alone";

widgets::TableSpec table_of_matches(const CompareResult& result) {
  widgets::TableSpec table{.id = "matches"};
  table.columns = {
      {.title = "head of A", .numbers = false},
      {.title = "most like it in B", .numbers = false},
      {.title = "divergence", .help = "Jensen-Shannon, nats; 0 equal, 0.693 disjoint"}};
  for (const HeadMatch& match : result.matches) {
    const protocol::Interval& js = match.js_divergence;
    const double none = widgets::TableCell::kNone;
    table.rows.push_back(
        {widgets::words_cell_of(name_of_head(match.layer, match.head)),
         widgets::words_cell_of(name_of_head(match.other_layer, match.other_head)),
         widgets::number_cell_of(js.mean, js.low.value_or(none), js.high.value_or(none))});
  }
  return table;
}

}  // namespace

bool is_oblong(const PlotSpec& plot) {
  if (!plot.map) return false;
  const auto [fewer, more] = std::minmax(plot.map->rows, plot.map->cols);
  return more > 2 * fewer;
}

void centre_marks(PlotSpec& plot) {
  if (!plot.map) return;
  for (widgets::Series& series : plot.series) {
    for (std::vector<double>* places : {&series.x, &series.y}) {
      for (double& place : *places) place = std::floor(place) + 0.5;
    }
  }
}

std::string CompareView::help_text() const {
  return "Two open models on the session's text, or over a corpus, or one model on that text (A) "
         "and "
         "on another one (B), row by row. Divergence is that of Jensen "
         "and "
         "Shannon between the rows of two heads' weights, mean over queries, in nats: 0 for equal "
         "rows, ln 2 = 0.693 for rows that share no key. Same heads: layer and head of equal "
         "number. "
         "Heads most alike: the pairing of different heads with the smallest sum, of models of any "
         "numbers of layers and heads; a click shows the two maps beside each other. Loss by "
         "position: what B loses above A, paired row by row.";
}

CompareView::Models CompareView::models_of(const ViewContext& context) const {
  const Session& session = context.session();
  const auto state = context.state<CompareState>();
  const auto open = [&](const std::string& name) {
    return !name.empty() && std::ranges::find(session.models, name) != session.models.end();
  };
  Models models{open(state.a) ? state.a : selected_model(session), ""};
  if (!state.other.empty()) return {models.a, models.a};
  if (open(state.b)) models.b = state.b;
  for (const std::string& model : session.models) {
    if (models.b.empty() && model != models.a) models.b = model;
  }
  return models;
}

bool CompareView::of_one_model(const ViewContext& context) const {
  const Models models = models_of(context);
  const auto state = context.state<CompareState>();
  if (state.figure == kOfOne) return true;
  return state.other.empty() && (models.b.empty() || models.a == models.b);
}

void CompareView::ask(ViewContext& context) {
  const Models models = models_of(context);
  if (models.a.empty()) return;
  const auto state = context.state<CompareState>();
  const TextInput text = context.text_for(models.a);
  if (of_one_model(context)) {
    auto request = with_choices(protocol::HeadsRequest{.model = models.a}, state.options);
    request.metrics = {"js_divergence"};
    if (context.has_stacks(models.a)) request.stack = context.session().selection.stack;
    set_text(request.reading, text);
    return context.requests.ask(context.requests.of(kDivergences), request, text.words);
  }
  auto request =
      with_choices(protocol::CompareRequest{.models = {models.a, models.b}}, state.options);
  if (!state.other.empty()) request.models = {models.a}, request.other = state.other;
  request.match = state.figure == kAlike;
  if (context.has_stacks(models.a) || context.has_stacks(models.b)) {
    request.stack = context.session().selection.stack;
  }
  set_text(request.reading, text);
  context.requests.ask(context.requests.of(kCompare), request, text.words);
}

std::string CompareView::command_line(const ViewContext& context) const {
  if (context.models() == 0) return "";
  if (of_one_model(context)) {
    return command_of<protocol::HeadsRequest>({context.requests.of(kDivergences).asked()});
  }
  return command_of<protocol::CompareRequest>({context.requests.of(kCompare).asked()});
}

WhatRan CompareView::kernels(const ViewContext& context) const {
  if (context.models() == 0) return {};
  if (of_one_model(context)) {
    const auto* answer = context.requests.of(kDivergences).answer();
    return answer ? what_ran(answer->result.provenance) : WhatRan{};
  }
  const auto* answer = context.requests.of(kCompare).answer();
  return answer ? what_ran(answer->result.provenance) : WhatRan{};
}

// Of the models that the answer is about; nothing while one of them is not known.
std::optional<HeadsALayer> CompareView::heads_of(const ViewContext& context,
                                                 const Answer<CompareResult>& answer) {
  const auto asked = protocol::request_of<protocol::CompareRequest>(answer.asked.params);
  if (asked.models.empty()) return std::nullopt;
  const auto* a = context.info(asked.models.front());
  const auto* b = context.info(asked.models.back());
  if (!a || !b) return std::nullopt;
  return HeadsALayer{a->model.heads, b->model.heads};
}

// One figure, of the answer that there is.
std::vector<PlotSpec> CompareView::plots_of(const ViewContext& context) const {
  const ModelNames names = names_of(context.session());
  const std::string figure = context.state<CompareState>().figure;
  if (of_one_model(context)) {
    const auto* answer = context.requests.of(kDivergences).answer();
    const auto* matrix = answer ? protocol::find_tensor(answer->tensors, "js_divergence") : nullptr;
    if (!matrix) return {};
    return {heads_divergence_figure(answer->result, grid_of(*matrix), names)};
  }
  const auto* answer = context.requests.of(kCompare).answer();
  if (!answer) return {};
  const CompareResult& result = answer->result;
  const auto* matrix = protocol::find_tensor(answer->tensors, "js_between");
  if (figure == kAlike && matrix) {
    const auto heads = heads_of(context, *answer);
    if (!heads) return {};
    return {matched_heads_figure(result, grid_of(*matrix), *heads, names)};
  }
  if (figure == kLoss && !result.positions.empty()) return {loss_change_figure(result, names)};
  if (figure == kLoss || result.heads.empty()) return {};
  return {divergence_figure(result, names)};
}

std::vector<Saved> CompareView::saved(ViewContext& context) {
  const std::vector<PlotSpec> plots =
      context.models() == 0 ? std::vector<PlotSpec>{} : plots_of(context);
  if (plots.empty()) return {};
  Output output;
  output.figures = plots;
  if (of_one_model(context)) {
    const auto& answer = *context.requests.of(kDivergences).answer();
    output.result = protocol::to_json_form(answer.result);
    output.provenance = provenance_of(answer.result);
    return {{"", std::move(output), command_of<protocol::HeadsRequest>({answer.asked})}};
  }
  const auto& answer = *context.requests.of(kCompare).answer();
  output.result = protocol::to_json_form(answer.result);
  output.provenance = provenance_of(answer.result);
  output.tables = {losses_table(answer.result)};
  return {{"", std::move(output), command_of<protocol::CompareRequest>({answer.asked})}};
}

bool CompareView::draw_model_choice(const ViewContext& context, const char* id,
                                    const std::string& now, std::string& chosen) {
  const Session& session = context.session();
  width_of_next(9);
  if (!ImGui::BeginCombo(id, short_name(session, now).c_str())) {
    tooltip(now);
    return false;
  }
  bool changed = false;
  for (const std::string& model : session.models) {
    if (ImGui::Selectable(short_name(session, model).c_str(), model == now)) {
      chosen = model, changed = true;
    }
    tooltip(model);
  }
  ImGui::EndCombo();
  return changed;
}

// Whether both read the same text, or A reads two: those that were read before from files, and any
// other file.
bool CompareView::draw_other_text(const ViewContext& context, CompareState& state) {
  constexpr const char* kSameText = "same text";
  bool changed = false;
  const auto offer = [&](const std::string& words, const std::string& path) {
    if (ImGui::Selectable(words.c_str(), path == state.other)) state.other = path, changed = true;
    tooltip(path);
  };
  const std::string now =
      state.other.empty() ? kSameText : "on " + name_of_text(state.other, SharedText());
  width_of_next(9);
  const bool open = ImGui::BeginCombo("##other", now.c_str());
  tooltip(state.other.empty() ? "A and B read the same text, or A alone reads two" : state.other);
  if (!open) return false;
  offer(kSameText, "");
  for (const KeptText& text : other_texts(context.session())) {
    const bool file = text.name != TextInput::kTyped && TextInput::sample_in(text.name).empty();
    if (!file) continue;  // the worker reads it
    const bool bundled = text.name == TextInput::kBundled;
    offer("on " + name_of_text(text.name, text.words),
          bundled ? (assets_folder() / "texts" / TextInput::kBundled).string() : text.name);
  }
  width_of_next(14);
  if (ImGui::InputTextWithHint("##path", "on another file", &path_,
                               ImGuiInputTextFlags_EnterReturnsTrue)) {
    state.other = path_, changed = true;
    ImGui::CloseCurrentPopup();
  }
  ImGui::EndCombo();
  return changed;
}

void CompareView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<CompareState>();
  const Models models = models_of(context);
  bool changed = draw_choice("##figure", state.figure, {kSame, kAlike, kLoss, kOfOne});
  next_control(9 * ImGui::GetFontSize());
  changed |= draw_model_choice(context, "##A", models.a, state.a);
  tooltip("A");
  if (state.figure != kOfOne) {
    next_control(9 * ImGui::GetFontSize());
    ImGui::BeginDisabled(!state.other.empty());
    changed |= draw_model_choice(context, "##B", models.b, state.b);
    tooltip("B");
    ImGui::EndDisabled();
    next_control(9 * ImGui::GetFontSize());
    changed |= draw_other_text(context, state);
  }
  const bool two = !of_one_model(context) && context.has_stacks(models.b);
  if (context.has_stacks(models.a) || two) draw_stack_choice(context);
  next_control(6 * ImGui::GetFontSize());
  const std::set<std::string> filled{"match", "other", "a", "b", "stack", "device", "threads"};
  changed |= form_.draw<protocol::CompareRequest>(state.options, CompareState{}.options, filled);
  if (changed) context.set_state("Compare other models", state, "compare");
  draw_tools(context);
}

// A's head is selected, and the map shows B's beside it.
void CompareView::show_pair(ViewContext& context, const HeadMatch& heads) {
  const Models models = models_of(context);
  const auto place = std::ranges::find(context.session().models, models.a);
  const bool stacks = context.has_stacks(models.b);
  context.edit.apply("Show two heads", [&](Session& s) {
    s.selection.model = place - context.session().models.begin();
    s.selection.layer = heads.layer, s.selection.head = heads.head;
    auto map = s.views.get<MapState>();
    map.b = models.b, map.b_layer = heads.other_layer, map.b_head = heads.other_head;
    map.b_stack = stacks ? s.selection.stack : "";  // both were compared in it
    map.b_text = s.views.get<CompareState>().other;
    if (map.show == "a") map.show = "both";
    s.views.set(map);
  });
}

void CompareView::draw_matches(ViewContext& context, const CompareResult& result) {
  const auto& table = rows_.get(key_of(context), [&] { return table_of_matches(result); });
  widgets::TableDraw options;
  options.version = rows_.version();
  options.hint = "Search, or a condition: divergence<0.1";
  const Selection& at = context.session().selection;
  const auto of = [&](int row) -> const HeadMatch& {
    return result.matches[static_cast<std::size_t>(row)];
  };
  options.selected = [&](int row) { return of(row).layer == at.layer && of(row).head == at.head; };
  options.menu = [&](int) { draw_menu_items(context); };
  const auto drawn = draw_kept_table(context, id(), table_, table, options);
  if (drawn.clicked >= 0) show_pair(context, of(drawn.clicked));
}

// A row of the matrix is a head of A, a column one of B, layer by layer. Of an answer of before
// nothing is shown: A and B may be others now.
void CompareView::click_on_matrix(ViewContext& context, const PlotSpec& plot,
                                  const widgets::PlotDrawn& drawn) {
  const auto& question = context.requests.of(kCompare);
  if (!drawn.clicked || !drawn.pointer || !plot.map || !question.answers_now()) return;
  const auto heads = heads_of(context, *question.answer());
  const auto row = static_cast<std::int64_t>(std::floor(drawn.pointer->y));
  const auto column = static_cast<std::int64_t>(std::floor(drawn.pointer->x));
  const bool inside = row >= 0 && column >= 0 && row < plot.map->rows && column < plot.map->cols;
  if (!heads || !inside) return;
  show_pair(context, {row / heads->a, row % heads->a, column / heads->b, column % heads->b, {}});
}

std::string CompareView::key_of(const ViewContext& context) const {
  return names_key(context) + context.state<CompareState>().figure +
         serials_of(context.requests.of(kCompare).answer(),
                    context.requests.of(kDivergences).answer()) +
         std::to_string(of_one_model(context));
}

void CompareView::draw_results(ViewContext& context) {
  const auto& plots = plots_.get(key_of(context), [&] {
    std::vector<PlotSpec> made = plots_of(context);
    std::ranges::for_each(made, centre_marks);
    return made;
  });
  const bool one = of_one_model(context);
  const bool now = one ? context.requests.of(kDivergences).answers_now()
                       : context.requests.of(kCompare).answers_now();
  const auto* answer = one ? nullptr : context.requests.of(kCompare).answer();
  if (plots.empty()) {
    if (now) {
      widgets::draw_empty("These models have no " + context.state<CompareState>().figure + ".");
    }
    return;
  }
  if (answer && std::isfinite(answer->result.loss_difference.mean)) {
    draw_cut_line(
        "loss of B - loss of A: " + with_ends(answer->result.loss_difference) + " nats a token",
        widgets::palette().quiet);
  }
  const bool matches = answer && context.state<CompareState>().figure == kAlike;
  const bool table = matches && !answer->result.matches.empty();
  const float below = table ? ImGui::GetFontSize() * 14 : 0;
  grid_.draw(plots, plots_.version(), {.old = !now, .below = below},
             [&](const PlotSpec& plot, widgets::PlotDraw options) {
               options.square = !is_oblong(plot);
               const auto drawn = draw_figure(context, plot, std::move(options));
               if (matches) click_on_matrix(context, plot, drawn);
             });
  if (!table) return;
  if (ImGui::BeginChild("matches", {0, below}, ImGuiChildFlags_NavFlattened)) {
    const Dimmed dimmed(!now);
    draw_matches(context, answer->result);
  }
  ImGui::EndChild();
}

void CompareView::draw_content(ViewContext& context) {
  if (context.models() == 0) {
    draw_tools(context);
    return widgets::draw_empty("Tick two models to compare them head by head.");
  }
  draw_controls(context);
  if (of_one_model(context)) {
    draw_question(context, context.requests.of(kDivergences), "");
  } else {
    draw_question(context, context.requests.of(kCompare), "");
  }
  draw_results(context);
}

}  // namespace phasescope::app
