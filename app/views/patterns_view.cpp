#include "app/views/patterns_view.h"

#include <algorithm>

#include "app/figures/figures.h"
#include "app/verbs/verb.h"
#include "app/window/requests.h"
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

int64_t most_layers(const Desk& desk) {
  int64_t most = 0;
  for (std::size_t i = 0; i < desk.models(); ++i)
    if (const auto* answer = desk.of(i).patterns.answer())
      for (const auto& layer : answer->result.layers) most = std::max(most, layer.layer);
  return most;
}

}  // namespace

std::string PatternsView::help_text() const {
  return "What the encoding does by itself. Dot products of position states by layer (TAPE, "
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

void PatternsView::ask(Desk& desk) {
  for (const std::string& model : desk.session().models)
    desk.lab.ask(desk.lab.of(model).patterns, patterns_params(desk.session(), model));
}

std::optional<PlotSpec> PatternsView::plot_of(const Session& session,
                                              const PatternsAnswer& answer) const {
  const PatternsResult& result = answer.result;
  const std::string& figure = session.patterns.figure;
  if (figure == "dot products") {
    const auto* tensor =
        protocol::find_tensor(answer.tensors, "pe_dot." + std::to_string(session.patterns.layer));
    if (!tensor) return std::nullopt;
    return pe_dot_figure(result, session.patterns.layer, grid_of(*tensor));
  }
  if (figure == "by distance" && !result.layers.empty()) return pe_by_distance_figure(result);
  if (figure == "drift with depth" && !result.layers.empty())
    return state_drift_figure({&result, 1});
  const int64_t layer = session.patterns.layer;
  const bool has_bias = std::any_of(result.bias.begin(), result.bias.end(),
                                    [&](const auto& curve) { return curve.layer == layer; });
  if (figure == "bias curves" && has_bias) return bias_curves_figure(result, layer);
  if (figure == "frequencies" && !result.frequencies.empty()) return frequencies_figure(result);
  return std::nullopt;
}

Output PatternsView::exported(Desk& desk) {
  Output output;
  for (std::size_t i = 0; i < desk.models(); ++i) {
    const auto* answer = desk.of(i).patterns.answer();
    if (!answer) continue;
    output.result["models"].push_back(protocol::to_json_form(answer->result));
    if (auto plot = plot_of(desk.session(), *answer)) output.figures.push_back(std::move(*plot));
  }
  return output;
}

void PatternsView::draw_controls(Desk& desk) {
  PatternsState state = desk.session().patterns;
  bool changed = draw_choice("##figure", state.figure, pattern_figures());
  if (state.figure == "dot products" || state.figure == "bias curves") {
    ImGui::SameLine();
    int layer = static_cast<int>(state.layer);
    const int most = static_cast<int>(std::max<int64_t>(1, most_layers(desk)));
    ImGui::SetNextItemWidth(ImGui::GetFontSize() * 8);
    if (ImGui::SliderInt("##layer", &layer, 0, most, "layer %d")) {
      state.layer = layer;
      changed = true;
    }
  }
  if (changed)
    desk.edit.apply(
        "Change the pattern", [&](Session& s) { s.patterns = state; }, "patterns");
  draw_tools(desk);
}

void PatternsView::draw_model(Desk& desk, std::size_t index) {
  auto& question = desk.of(index).patterns;
  draw_model_name(desk.session(), index);
  if (question.answer()) {
    ImGui::SameLine();
    ImGui::TextColored(widgets::palette().quiet, "%s", question.answer()->result.encoding.c_str());
  }
  draw_question(desk, question, "");
  const auto* answer = question.answer();
  if (!answer) return;
  Picture& picture = pictures_[desk.session().models[index]];
  const PatternsState& state = desk.session().patterns;
  const std::string key = serials_of(answer) + state.figure + std::to_string(state.layer);
  const PlotSpec& plot =
      picture.plot.get(key, [&] { return plot_of(desk.session(), *answer).value_or(PlotSpec{}); });
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
  widgets::draw_plot(plot, options);
}

void PatternsView::draw_content(Desk& desk) {
  draw_controls(desk);
  const int columns = static_cast<int>(desk.models());
  if (columns == 0) return widgets::draw_empty("Tick a model to see what its encoding does.");
  const float height = ImGui::GetContentRegionAvail().y - 8;
  if (!ImGui::BeginTable("models", columns, ImGuiTableFlags_SizingStretchSame)) return;
  for (std::size_t i = 0; i < desk.models(); ++i) {
    ImGui::TableNextColumn();
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::BeginChild("model", {0, height})) draw_model(desk, i);
    ImGui::EndChild();
    ImGui::PopID();
  }
  ImGui::EndTable();
}

}  // namespace phasescope::app
