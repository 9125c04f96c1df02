#include "app/views/patterns_view.h"

#include <algorithm>
#include <set>

#include "app/figures/figures.h"
#include "app/outputs/several_answers.h"
#include "app/views/controls_room.h"
#include "widgets/scaled.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::PatternsResult;
using widgets::PlotSpec;

// The wanted layer, or the last one before it that the model has: a state that stays as it was.
std::int64_t layer_at_most(const std::vector<std::int64_t>& layers, std::int64_t wanted) {
  std::int64_t found = layers.empty() ? wanted : layers.front();
  for (std::int64_t layer : layers) {
    if (layer <= wanted) found = layer;
  }
  return found;
}

// The figures on show; none where the encoding has no such thing.
std::vector<PlotSpec> figures_shown(const std::vector<GroupedFigure>& figures,
                                    const PatternsState& state) {
  std::vector<std::int64_t> layers;
  for (const GroupedFigure& one : figures) {
    if (one.group == state.figure) layers.push_back(one.layer);
  }
  const std::int64_t layer = layer_at_most(layers, state.layer);
  std::vector<PlotSpec> plots;
  for (const GroupedFigure& one : figures) {
    if (one.group == state.figure && one.layer == layer) plots.push_back(one.plot);
  }
  return plots;
}

bool has_group(const std::vector<GroupedFigure>& figures, const std::string& group) {
  return std::ranges::find(figures, group, &GroupedFigure::group) != figures.end();
}

// Small multiples as figures: each cell of a grid is one, of the group that is named.
void add_cells(const std::vector<widgets::GridSpec>& grids, std::vector<GroupedFigure>& figures) {
  for (const widgets::GridSpec& grid : grids) {
    const bool products = grid.id.starts_with("pe_dot_heads");
    const auto columns = static_cast<std::size_t>(std::max(1, grid.columns));
    for (std::size_t n = 0; n < grid.cells.size(); ++n) {
      PlotSpec plot{.id = grid.id + "_" + std::to_string(n), .title = grid.cells[n].caption};
      plot.map = grid.cells[n].map, plot.legend = false, plot.notes = grid.notes;
      plot.x.label = plot.map->col_name, plot.y.label = plot.map->row_name;
      if (products) plot.x.of = plot.y.of = widgets::Coordinate::position;
      figures.push_back({products ? "dot products side by side" : "f of content and bias",
                         static_cast<std::int64_t>(n / columns), std::move(plot)});
    }
  }
}

// A figure of what the model is, and not of what was measured.
constexpr const char* kRopePlan = "rope plan";
// States are counted from the start: state n is the one after n layers.
std::string layer_words(const std::string& figure, std::int64_t layer) {
  static const std::set<std::string> of_states{"dot products", "dot products side by side",
                                               "against"};
  if (!of_states.contains(figure)) return "L" + std::to_string(layer);
  return layer == 0 ? "at the start" : "after L" + std::to_string(layer - 1);
}

}  // namespace

std::string PatternsView::help_text() const {
  return "What the encoding does by itself. Dot products of position states by layer, or of a "
         "table of "
         "positions that is added to the embedding (TAPE, "
         "Figures "
         "7 and 8; 0 is the start, n the state after n layers), their mean by distance, how far "
         "the "
         "state drifts with depth (of all models in one figure), the bias of every head by "
         "distance (CAPE, Figure 1), the "
         "frequencies of the rotation, and which layers turn by which of them (rope plan).";
}

// One for each model on show, of what is on show of it.
std::string PatternsView::command_line(const ViewContext& context) const {
  if (context.state<PatternsState>().figure == kRopePlan) {
    return command_of<protocol::InfoRequest>(asked_of_all(context, kInfo));
  }
  return command_of<protocol::PatternsRequest>(asked_of_all(context, kPatterns));
}

void PatternsView::ask(ViewContext& context) {
  const auto options = context.state<PatternsState>().options;
  ask_of_all(context, kPatterns, [&](const std::string& model, const TextInput& text) {
    auto request = with_choices(protocol::PatternsRequest{.model = model}, options);
    set_text(request.reading, text);
    return request;
  });
}

const std::vector<GroupedFigure>& PatternsView::figures_of_answer(const ViewContext& context,
                                                                  const PatternsAnswer& answer) {
  const auto* report = context.requests.of(kInfo, answer.result.model).answer();
  const std::string key = names_key(context) + serials_of(&answer, report);
  return pictures_[answer.result.model].figures.get(key, [&] {
    const ModelNames names = names_of(context.session());
    auto figures = figures_of(answer.result, answer.tensors, names);
    for (GroupedFigure& one : more_figures_of(answer.result, answer.tensors, names)) {
      figures.push_back(std::move(one));
    }
    add_cells(grids_of(answer.result, answer.tensors, names), figures);
    if (!report) return figures;
    if (auto plan = rope_plan_figure(report->result, names)) {
      figures.push_back({kRopePlan, -1, std::move(*plan)});
    }
    return figures;
  });
}

std::vector<std::string> PatternsView::groups_of_all(const ViewContext& context) {
  std::vector<std::string> groups{context.state<PatternsState>().figure};
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (const auto* answer = context.of(kPatterns, i).answer()) {
      for (const GroupedFigure& one : figures_of_answer(context, *answer)) {
        if (std::ranges::find(groups, one.group) == groups.end()) groups.push_back(one.group);
      }
    }
  }
  std::ranges::sort(groups);
  return groups;
}

std::vector<std::int64_t> PatternsView::layers_of_all(const ViewContext& context) {
  std::set<std::int64_t> layers;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (const auto* answer = context.of(kPatterns, i).answer()) {
      for (const GroupedFigure& one : figures_of_answer(context, *answer)) {
        if (one.group == context.state<PatternsState>().figure && one.layer >= 0) {
          layers.insert(one.layer);
        }
      }
    }
  }
  return {layers.begin(), layers.end()};
}

// One figure of all, with what each of them is made of.
Saved PatternsView::saved_drift(const ViewContext& context,
                                const ShownAnswers<protocol::PatternsResult>& answers) {
  std::vector<Answered<PatternsResult>> all;
  for (const PatternsAnswer* answer : answers.list) {
    all.push_back({answer->result, protocol::to_json_form(answer->result)});
  }
  Output output = output_of(all);
  output.figures = drift_of(context, answers);
  return {"", std::move(output), command_of<protocol::PatternsRequest>(answers.asked())};
}

std::vector<Saved> PatternsView::saved(ViewContext& context) {
  const auto answers = shown_answers(context, kPatterns);
  if (context.state<PatternsState>().figure == kDriftWithDepth && answers.list.size() > 1) {
    return {saved_drift(context, answers)};
  }
  std::vector<Saved> all;
  for (const auto* answer : answers.list) {
    Output output{.result = protocol::to_json_form(answer->result),
                  .provenance = provenance_of(answer->result)};
    output.figures =
        figures_shown(figures_of_answer(context, *answer), context.state<PatternsState>());
    const Asked& info = context.requests.of(kInfo, answer->result.model).asked();
    all.push_back({names_of(context.session()).file_name(answer->result.model), std::move(output),
                   context.state<PatternsState>().figure == kRopePlan
                       ? command_of<protocol::InfoRequest>({info})
                       : command_of<protocol::PatternsRequest>({answer->asked})});
  }
  return all;
}

void PatternsView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<PatternsState>();
  bool changed = draw_choice("##figure", state.figure, groups_of_all(context));
  const auto layers = layers_of_all(context);
  if (layers.size() > 1) {
    std::vector<std::string> words;
    for (std::int64_t layer : layers) words.push_back(layer_words(state.figure, layer));
    std::string shown = layer_words(state.figure, layer_at_most(layers, state.layer));
    next_control(choice_width(words));
    if (draw_choice("##layer", shown, words)) {
      const auto place = std::find(words.begin(), words.end(), shown) - words.begin();
      state.layer = layers[static_cast<std::size_t>(place)];
      changed = true;
    }
  }
  next_control(6 * ImGui::GetFontSize());
  changed |= form_.draw<protocol::PatternsRequest>(state.options, PatternsState{}.options,
                                                   {"device", "threads"});
  if (changed) context.set_state("Change the pattern", state, "patterns");
  draw_tools(context);
}

std::vector<PlotSpec> PatternsView::drift_of(
    const ViewContext& context, const ShownAnswers<protocol::PatternsResult>& answers) {
  std::vector<protocol::PatternsResult> results;
  for (const PatternsAnswer* answer : answers.list) results.push_back(answer->result);
  auto drift = state_drift_figure(results, names_of(context.session()));
  return drift ? std::vector<PlotSpec>{std::move(*drift)} : std::vector<PlotSpec>{};
}

void PatternsView::draw_drift(ViewContext& context) {
  draw_questions(context, kPatterns);
  const auto answers = shown_answers(context, kPatterns);
  const auto& plots = drift_.get(answers.key(context), [&] { return drift_of(context, answers); });
  drift_grid_.draw(plots, drift_.version(), {.old = answers.old},
                   [&](const PlotSpec& plot, widgets::PlotDraw options) {
                     draw_figure(context, plot, std::move(options));
                   });
}

void PatternsView::draw_model(ViewContext& context, std::size_t index) {
  auto& question = context.of(kPatterns, index);
  draw_model_name(context.session(), index);
  if (question.answer()) {
    ImGui::SameLine();
    ImGui::TextColored(widgets::palette().quiet, "%s", question.answer()->result.encoding.c_str());
  }
  draw_question(context, question, "");
  const auto* answer = question.answer();
  if (!answer) return;
  const auto state = context.state<PatternsState>();
  const auto& figures = figures_of_answer(context, *answer);
  Picture& picture = pictures_[answer->result.model];
  const std::string key =
      std::to_string(picture.figures.version()) + "/" + state.figure + std::to_string(state.layer);
  const auto& plots = picture.plots.get(key, [&] { return figures_shown(figures, state); });
  if (plots.empty()) return;
  picture.grid.draw(plots, picture.plots.version(), {.old = !question.answers_now()},
                    [&](const PlotSpec& plot, widgets::PlotDraw options) {
                      draw_figure(context, plot, std::move(options));
                    });
}

// Models beside each other as far as each has room for a figure, else one below the other; those
// that have no such figure in a line each.
void PatternsView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0) {
    return widgets::draw_empty("Tick a model to see what its encoding does.");
  }
  const auto state = context.state<PatternsState>();
  std::vector<std::size_t> drawn, silent;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = context.of(kPatterns, i).answer();
    const bool has = !answer || has_group(figures_of_answer(context, *answer), state.figure);
    (has ? drawn : silent).push_back(i);
  }
  for (const std::size_t i : silent) {
    const auto& result = context.of(kPatterns, i).answer()->result;
    draw_model_name(context.session(), i);
    ImGui::SameLine();
    const std::string& why = result.why_empty;
    widgets::draw_notes({why.empty() ? "This encoding has no " + state.figure + "." : why});
  }
  const int count = static_cast<int>(drawn.size());
  if (count == 0) return;
  if (state.figure == kDriftWithDepth) return draw_drift(context);
  const float font = ImGui::GetFontSize();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const int columns = std::clamp(static_cast<int>(room.x / (font * 20)), 1, count);
  const int rows = (count + columns - 1) / columns;
  const float gap = widgets::scaled(8);
  const float height = figure_height(room.y / static_cast<float>(rows) - gap, room.y - gap, 20);
  if (!ImGui::BeginTable("models", columns, ImGuiTableFlags_SizingStretchSame)) return;
  for (const std::size_t i : drawn) {
    ImGui::TableNextColumn();
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::BeginChild("model", {0, height}, ImGuiChildFlags_NavFlattened)) {
      draw_model(context, i);
    }
    ImGui::EndChild();
    ImGui::PopID();
  }
  ImGui::EndTable();
}

}  // namespace phasescope::app
