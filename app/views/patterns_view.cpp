#include "app/views/patterns_view.h"

#include <algorithm>
#include <set>

#include "app/figures/figures.h"
#include "app/verbs/verb_tools.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::PatternsResult;
using widgets::PlotSpec;

const std::vector<std::string>& pattern_figures() {
  static const std::vector<std::string> names{"dot products", "by distance", "drift with depth",
                                              "bias curves", "frequencies"};
  return names;
}

// The wanted layer, or the last one before it that the model has: a state that stays as it was.
int64_t layer_at_most(const std::vector<int64_t>& layers, int64_t wanted) {
  int64_t found = layers.empty() ? wanted : layers.front();
  for (int64_t layer : layers)
    if (layer <= wanted) found = layer;
  return found;
}

// The figure on show; nullptr where the encoding has no such thing.
const GroupedFigure* figure_shown(const std::vector<GroupedFigure>& figures,
                                  const PatternsState& state) {
  std::vector<int64_t> layers;
  for (const GroupedFigure& one : figures)
    if (one.group == state.figure) layers.push_back(one.layer);
  const int64_t layer = layer_at_most(layers, state.layer);
  for (const GroupedFigure& one : figures)
    if (one.group == state.figure && one.layer == layer) return &one;
  return nullptr;
}

// States are counted from the start: state n is the one after n layers.
std::string layer_words(const std::string& figure, int64_t layer) {
  if (figure == "bias curves") return "L" + std::to_string(layer);
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
         "state drifts with depth, the bias of every head by distance (CAPE, Figure 1), and the "
         "frequencies of the rotation.";
}

std::string PatternsView::command_line(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  if (model.empty()) return "";
  return command_of<protocol::PatternsRequest>({context.requests.of(kPatterns, model).asked()});
}

void PatternsView::ask(ViewContext& context) {
  ask_of_all(context, kPatterns, [](const std::string& model, const TextInput& text) {
    protocol::PatternsRequest request{.model = model};
    set_text(request.reading, text);
    return request;
  });
}

const std::vector<GroupedFigure>& PatternsView::figures_of_answer(const ViewContext& context,
                                                                  const PatternsAnswer& answer) {
  return pictures_[answer.result.model].figures.get(names_key(context) + serials_of(&answer), [&] {
    return figures_of(answer.result, answer.tensors, names_of(context.session()));
  });
}

std::vector<int64_t> PatternsView::layers_of_all(const ViewContext& context) {
  std::set<int64_t> layers;
  for (std::size_t i = 0; i < context.models(); ++i)
    if (const auto* answer = context.of(kPatterns, i).answer())
      for (const GroupedFigure& one : figures_of_answer(context, *answer))
        if (one.group == context.state<PatternsState>().figure && one.layer >= 0)
          layers.insert(one.layer);
  return {layers.begin(), layers.end()};
}

std::vector<Saved> PatternsView::saved(ViewContext& context) {
  std::vector<Saved> all;
  for (const auto* answer : shown_answers(context, kPatterns).list) {
    Output output{.result = protocol::to_json_form(answer->result),
                  .provenance = provenance_of(answer->result)};
    const auto* figure =
        figure_shown(figures_of_answer(context, *answer), context.state<PatternsState>());
    if (figure) output.figures = {figure->plot};
    all.push_back({names_of(context.session()).file_name(answer->result.model), std::move(output),
                   command_of<protocol::PatternsRequest>({answer->asked})});
  }
  return all;
}

void PatternsView::draw_controls(ViewContext& context) {
  auto state = context.state<PatternsState>();
  bool changed = draw_choice("##figure", state.figure, pattern_figures());
  const auto layers = layers_of_all(context);
  if (layers.size() > 1) {
    std::vector<std::string> words;
    for (int64_t layer : layers) words.push_back(layer_words(state.figure, layer));
    std::string shown = layer_words(state.figure, layer_at_most(layers, state.layer));
    ImGui::SameLine();
    if (draw_choice("##layer", shown, words)) {
      const auto place = std::find(words.begin(), words.end(), shown) - words.begin();
      state.layer = layers[static_cast<std::size_t>(place)];
      changed = true;
    }
  }
  if (changed) context.set_state("Change the pattern", state, "patterns");
  draw_tools(context);
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
  const PlotSpec& plot = picture.plot.get(key, [&] {
    const GroupedFigure* figure = figure_shown(figures, state);
    return figure ? figure->plot : PlotSpec{};
  });
  if (plot.id.empty()) {
    const std::string& why = answer->result.why_empty;
    return widgets::draw_empty(why.empty() ? "This encoding has no " + state.figure + "." : why);
  }
  const Dimmed dimmed(!question.answers_now());
  if (plot.map && picture.texture_version != picture.plot.version()) {
    picture.texture.set_values(plot.map->rows, plot.map->cols, plot.map->values);
    picture.texture_version = picture.plot.version();
  }
  widgets::PlotDraw options;
  options.texture = &picture.texture;
  options.version = picture.plot.version();
  options.title = true;
  widgets::draw_plot(plot, options);
}

void PatternsView::draw_content(ViewContext& context) {
  draw_controls(context);
  const int columns = static_cast<int>(context.models());
  if (columns == 0) return widgets::draw_empty("Tick a model to see what its encoding does.");
  const float height = ImGui::GetContentRegionAvail().y - 8;
  if (!ImGui::BeginTable("models", columns, ImGuiTableFlags_SizingStretchSame)) return;
  for (std::size_t i = 0; i < context.models(); ++i) {
    ImGui::TableNextColumn();
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::BeginChild("model", {0, height})) draw_model(context, i);
    ImGui::EndChild();
    ImGui::PopID();
  }
  ImGui::EndTable();
}

}  // namespace phasescope::app
