#include "app/views/distance_view.h"

#include <algorithm>
#include <cstdio>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/window/session_requests.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::DistanceModel;
using widgets::PlotSpec;

const std::vector<std::string>& distance_figures() {
  static const std::vector<std::string> names{"near - far", "score", "weight", "score parts",
                                              "intrinsic bias"};
  return names;
}

// The model as it is over one layer only; unchanged for -1.
DistanceModel at_layer(DistanceModel model, int64_t layer) {
  if (layer < 0) return model;
  for (const protocol::DistanceGroup& group : model.layers)
    if (group.layer == layer) {
      model.profile = group.profile;
      model.histogram = group.histogram;
    }
  std::erase_if(model.intrinsic, [&](const auto& curve) { return curve.layer != layer; });
  return model;
}

std::vector<DistanceModel> models_of(const ViewContext& context, int64_t layer) {
  std::vector<DistanceModel> models;
  for (std::size_t i = 0; i < context.models(); ++i)
    if (const auto* answer = context.of(i).distance.answer())
      for (const DistanceModel& model : answer->result.models) {
        models.push_back(at_layer(model, layer));
        models.back().model = short_name(context.session(), context.session().models[i]);
      }
  return models;
}

// Differs with the answers and with the layer that is shown.
std::string distance_key(const ViewContext& context) {
  return std::to_string(context.session().distance.layer) + "|" + names_key(context) +
         answers_key(context, &ModelQuestions::distance);
}

std::vector<PlotSpec> distance_plots(const std::string& figure,
                                     const std::vector<DistanceModel>& models) {
  std::vector<PlotSpec> plots;
  if (figure == "near - far") plots = {near_far_figure(models), near_far_by_layer_figure(models)};
  if (figure == "score") plots = {score_profile_figure(models)};
  if (figure == "weight") plots = {weight_profile_figure(models)};
  if (figure == "score parts")
    for (const DistanceModel& model : models) plots.push_back(score_parts_figure(model));
  if (figure == "intrinsic bias")
    for (const DistanceModel& model : models)
      if (!model.intrinsic.empty()) plots.push_back(intrinsic_bias_figure(model, 0));
  return plots;
}

// In the window the table below holds the numbers; the legend only names the models.
void shorten_labels(std::vector<PlotSpec>& plots) {
  for (PlotSpec& plot : plots) {
    for (widgets::Series& series : plot.series)
      series.label = series.label.substr(0, series.label.find(':'));
    for (widgets::Marker& marker : plot.markers) marker.label.clear();
    if (plot.id == "near_far") plot.notes.clear();
  }
}

}  // namespace

std::string DistanceView::help_text() const {
  return "Near minus far: for one query, the score of a near key minus that of a far key in the "
         "same "
         "head, many thousand pairs; a mean above 0 favours near keys. Intervals are clustered by "
         "text. In a model that sees both ways distances are |i - j|, keys before and after a "
         "query "
         "counting. Published for 7B models and distances to 10,100 (TAPA, Appendix I): RoPE mean "
         "4.1, "
         "sigma 0.85; TAPA mean 0.03, sigma 3.3. Models of this size differ from that, and what is "
         "shown is what was measured.";
}

std::string DistanceView::command_line(const Session& session) const {
  if (session.models.empty()) return "";
  return verb_line(session, "distance") +
         (session.distance.corpus ? " --corpus" : text_option(session));
}

void DistanceView::ask(ViewContext& context) {
  for (const std::string& model : context.session().models) {
    const Session session = context.session_for(model);
    context.requests.ask(context.requests.of(model).distance, distance_params(session, model),
                         session.text.words);
  }
}

Output DistanceView::exported(ViewContext& context) {
  Output output;
  for (std::size_t i = 0; i < context.models(); ++i)
    if (const auto* answer = context.of(i).distance.answer())
      output.result["answers"].push_back(protocol::to_json_form(answer->result));
  const auto models = models_of(context, context.session().distance.layer);
  if (!models.empty()) output.figures = distance_plots(context.session().distance.figure, models);
  return output;
}

void DistanceView::draw_controls(ViewContext& context) {
  DistanceState state = context.session().distance;
  bool changed = draw_choice("##figure", state.figure, distance_figures());
  std::vector<std::string> layers{"all layers"};
  const auto& models =
      models_.get(distance_key(context), [&] { return models_of(context, state.layer); });
  const std::size_t count = models.empty() ? 0 : models.front().layers.size();
  for (std::size_t i = 0; i < count; ++i) layers.push_back("L" + std::to_string(i));
  const auto place = static_cast<std::size_t>(state.layer + 1);
  std::string layer = place < layers.size() ? layers[place] : layers[0];
  ImGui::SameLine();
  if (draw_choice("##layer", layer, layers)) {
    state.layer = std::find(layers.begin(), layers.end(), layer) - layers.begin() - 1;
    changed = true;
  }
  tooltip("Pooled over the heads of all layers, or of one");
  ImGui::SameLine();
  std::string source = state.corpus ? "corpus" : "this text";
  if (draw_choice("##source", source, {"corpus", "this text"})) {
    state.corpus = source == "corpus";
    changed = true;
  }
  tooltip("corpus: the bundled validation texts");
  if (changed)
    context.edit.apply("Change the distance figure", [&](Session& s) { s.distance = state; });
  draw_tools(context);
}

void DistanceView::draw_table(const std::vector<DistanceModel>& models) {
  const ImGuiTableFlags flags = ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH;
  if (!ImGui::BeginTable("numbers", 6, flags)) return;
  for (const char* name : {"near - far", "mean  [95 %]", "sigma", "skew", "above 0", "pairs"})
    ImGui::TableSetupColumn(name);
  ImGui::TableHeadersRow();
  int index = 0;
  for (const DistanceModel& model : models) {
    const ImVec4 color = widgets::series_vec(index++);
    if (!model.histogram) continue;
    const protocol::NearFar& h = *model.histogram;
    using widgets::short_number;
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::TextColored(color, "%s", model.model.c_str());
    tooltip("near [" + std::to_string(h.near_begin) + ", " + std::to_string(h.near_end) +
            "), far [" + std::to_string(h.far_begin) + ", " + std::to_string(h.far_end) + ")\n" +
            "interval of the mean: " + words_of(h.intervals.mean) +
            (model.note.empty() ? "" : "\n" + model.note));
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(with_ends(h.intervals.mean).c_str());
    tooltip(words_of(h.intervals.mean));
    ImGui::TableNextColumn();
    ImGui::Text("%.2f", h.sigma);
    tooltip(with_ends(h.intervals.sigma) + ", " + words_of(h.intervals.sigma));
    ImGui::TableNextColumn();
    ImGui::Text("%.2f", h.skewness);
    tooltip(with_ends(h.intervals.skewness) + ", " + words_of(h.intervals.skewness));
    ImGui::TableNextColumn();
    ImGui::Text("%.1f %%", 100 * h.share_positive);
    tooltip(with_ends(h.intervals.share_positive) + ", " + words_of(h.intervals.share_positive));
    ImGui::TableNextColumn();
    ImGui::Text("%lld", static_cast<long long>(h.pairs));
    tooltip(std::to_string(h.texts) + " texts");
  }
  ImGui::EndTable();
}

void DistanceView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0)
    return widgets::draw_empty("Tick models to compare how they favour near keys.");
  for (std::size_t i = 0; i < context.models(); ++i)
    draw_question(context, context.of(i).distance,
                  short_name(context.session(), context.session().models[i]));
  const DistanceState& state = context.session().distance;
  const auto& models =
      models_.get(distance_key(context), [&] { return models_of(context, state.layer); });
  if (models.empty()) return;
  const auto& plots = plots_.get(distance_key(context) + state.figure, [&] {
    auto made = distance_plots(state.figure, models);
    shorten_labels(made);
    return made;
  });
  if (plots.empty())
    return widgets::draw_empty(
        "None of the open models has an intrinsic bias: it is defined for "
        "rotary encodings.");
  const bool table = state.figure == "near - far";
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float below = table ? line * (1.4F + 1.15F * static_cast<float>(models.size())) : 0;
  const auto count = static_cast<int>(plots.size());
  const float height = ImGui::GetContentRegionAvail().y - below;
  if (ImGui::BeginTable("plots", count, ImGuiTableFlags_SizingStretchSame)) {
    for (const PlotSpec& plot : plots) {
      ImGui::TableNextColumn();
      ImGui::PushID(&plot);
      if (ImGui::BeginChild("plot", {0, std::max(120.0F, height)})) {
        widgets::PlotDraw options;
        options.version = plots_.version();
        options.title = true;
        widgets::draw_plot(plot, options);
      }
      ImGui::EndChild();
      ImGui::PopID();
    }
    ImGui::EndTable();
  }
  if (table) draw_table(models);
}

}  // namespace phasescope::app
