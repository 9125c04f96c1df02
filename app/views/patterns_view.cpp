#include "app/views/patterns_view.h"

#include <algorithm>
#include <set>

#include "app/figures/figures.h"
#include "app/verbs/verb.h"
#include "app/window/session_requests.h"
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

// Layers of a model that a figure can show; empty where its encoding has no such figure, or where
// the figure has no layers.
std::vector<int64_t> layers_of(const Answer<PatternsResult>& answer, const std::string& figure) {
  std::set<int64_t> layers;
  if (figure == "dot products")
    for (const auto& layer : answer.result.layers)
      if (protocol::find_tensor(answer.tensors, "pe_dot." + std::to_string(layer.layer)))
        layers.insert(layer.layer);
  if (figure == "bias curves")
    for (const auto& curve : answer.result.bias) layers.insert(curve.layer);
  return {layers.begin(), layers.end()};
}

// The wanted layer, or the last one before it that the model has: a state that stays as it was.
int64_t layer_at_most(const std::vector<int64_t>& layers, int64_t wanted) {
  int64_t found = layers.empty() ? wanted : layers.front();
  for (int64_t layer : layers)
    if (layer <= wanted) found = layer;
  return found;
}

std::vector<int64_t> layers_of_all(const ViewContext& context) {
  std::set<int64_t> layers;
  for (std::size_t i = 0; i < context.models(); ++i)
    if (const auto* answer = context.of(i).patterns.answer())
      for (int64_t layer : layers_of(*answer, context.session().patterns.figure))
        layers.insert(layer);
  return {layers.begin(), layers.end()};
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

std::string PatternsView::command_line(const Session& session) const {
  const std::string model = selected_model(session);
  return model.empty() ? "" : "phasescope patterns " + shell_word(model) + text_option(session);
}

void PatternsView::ask(ViewContext& context) {
  for (const std::string& model : context.session().models) {
    const Session session = context.session_for(model);
    context.requests.ask(context.requests.of(model).patterns, patterns_params(session, model),
                         session.text.words);
  }
}

// Whoever has not chosen sees the first figure that the encoding has.
std::optional<PlotSpec> PatternsView::plot_of(const Session& session,
                                              const PatternsAnswer& answer) const {
  const std::vector<std::string>& names = pattern_figures();
  const std::string& chosen = session.patterns.figure;
  std::optional<PlotSpec> plot = plot_of(session, answer, chosen);
  for (std::size_t n = 1; !plot && chosen == names[0] && n < names.size(); ++n)
    plot = plot_of(session, answer, names[n]);
  return plot;
}

std::optional<PlotSpec> PatternsView::plot_of(const Session& session, const PatternsAnswer& answer,
                                              const std::string& figure) const {
  const PatternsResult& result = answer.result;
  const auto layers = layers_of(answer, figure);
  const int64_t layer = layer_at_most(layers, session.patterns.layer);
  if (figure == "dot products" && !layers.empty())
    return pe_dot_figure(
        result, layer,
        grid_of(*protocol::find_tensor(answer.tensors, "pe_dot." + std::to_string(layer))));
  if (figure == "by distance" && !result.layers.empty()) return pe_by_distance_figure(result);
  if (figure == "drift with depth" && !result.layers.empty())
    return state_drift_figure({&result, 1});
  if (figure == "bias curves" && !layers.empty()) return bias_curves_figure(result, layer);
  if (figure == "frequencies" && !result.frequencies.empty()) return frequencies_figure(result);
  return std::nullopt;
}

Output PatternsView::exported(ViewContext& context) {
  Output output;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = context.of(i).patterns.answer();
    if (!answer) continue;
    output.result["models"].push_back(protocol::to_json_form(answer->result));
    if (auto plot = plot_of(context.session(), *answer)) output.figures.push_back(std::move(*plot));
  }
  return output;
}

void PatternsView::draw_controls(ViewContext& context) {
  PatternsState state = context.session().patterns;
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
  if (changed)
    context.edit.apply(
        "Change the pattern", [&](Session& s) { s.patterns = state; }, "patterns");
  draw_tools(context);
}

void PatternsView::draw_model(ViewContext& context, std::size_t index) {
  auto& question = context.of(index).patterns;
  draw_model_name(context.session(), index);
  if (question.answer()) {
    ImGui::SameLine();
    ImGui::TextColored(widgets::palette().quiet, "%s", question.answer()->result.encoding.c_str());
  }
  draw_question(context, question, "");
  const auto* answer = question.answer();
  if (!answer) return;
  Picture& picture = pictures_[context.session().models[index]];
  const PatternsState& state = context.session().patterns;
  const std::string key = serials_of(answer) + state.figure + std::to_string(state.layer);
  const PlotSpec& plot = picture.plot.get(
      key, [&] { return plot_of(context.session(), *answer).value_or(PlotSpec{}); });
  if (plot.id.empty()) {
    const std::string& why = answer->result.why_empty;
    return widgets::draw_empty(why.empty() ? "This encoding has no " + state.figure + "." : why);
  }
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
