#include "app/views/distance_view.h"

#include <algorithm>
#include <cstdio>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/verbs/verb_tools.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::DistanceModel;
using widgets::PlotSpec;

using protocol::DistanceResult;
using DistanceAnswers = ShownAnswers<DistanceResult>;

const std::vector<std::string>& distance_figures() {
  static const std::vector<std::string> names{"near - far", "score", "weight", "score parts",
                                              "intrinsic bias"};
  return names;
}

DistanceResult merged(const DistanceAnswers& answers) {
  DistanceResult all;
  for (const auto* answer : answers.list)
    for (const DistanceModel& model : answer->result.models) all.models.push_back(model);
  return all;
}

// What is shown of a result: one group of its figures, of one layer or all of them.
std::vector<PlotSpec> plots_shown(const DistanceResult& result, const DistanceState& state,
                                  const ModelNames& names) {
  std::vector<GroupedFigure> figures = figures_of(result.models, names, state.layer);
  std::erase_if(figures, [&](const GroupedFigure& one) { return one.group != state.figure; });
  return plots_of(std::move(figures));
}

// Of all layers, or of one where the model has it.
const protocol::NearFar* histogram_of(const DistanceModel& model, int64_t layer) {
  if (layer < 0) return model.histogram ? &*model.histogram : nullptr;
  for (const protocol::DistanceGroup& group : model.layers)
    if (group.layer == layer && group.histogram) return &*group.histogram;
  return nullptr;
}

// In the window the table below holds the numbers; the legend only names the models.
void shorten_labels(std::vector<PlotSpec>& plots) {
  for (PlotSpec& plot : plots) {
    for (widgets::Series& series : plot.series)
      series.label = series.label.substr(0, series.label.find(':'));
    for (widgets::Marker& marker : plot.markers) marker.label.clear();
    if (plot.id.starts_with("near_far") && !plot.id.starts_with("near_far_by")) plot.notes.clear();
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

void DistanceView::ask(ViewContext& context) {
  const bool corpus = context.state<DistanceState>().corpus;
  ask_of_all(context, kDistance, [&](const std::string& model, const TextInput& text) {
    protocol::DistanceRequest request{.models = {model}};
    if (corpus)
      request.reading.corpus.asked = true;
    else
      set_text(request.reading, text);
    return request;
  });
}

std::vector<Saved> DistanceView::saved(ViewContext& context) {
  const DistanceAnswers answers = shown_answers(context, kDistance);
  if (answers.empty()) return {};
  const DistanceResult result = merged(answers);
  Output output{.result = protocol::to_json_form(result), .provenance = provenance_of(result)};
  output.tables = {near_far_table(result)};
  output.figures = plots_shown(result, context.state<DistanceState>(), names_of(context.session()));
  return {{"", std::move(output), command_of<protocol::DistanceRequest>(answers.asked())}};
}

void DistanceView::draw_controls(ViewContext& context) {
  auto state = context.state<DistanceState>();
  bool changed = draw_choice("##figure", state.figure, distance_figures());
  std::vector<std::string> layers{"all layers"};
  std::size_t count = 0;
  for (const auto* answer : shown_answers(context, kDistance).list)
    for (const DistanceModel& model : answer->result.models)
      count = std::max(count, model.layers.size());
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
  if (changed) context.set_state("Change the distance figure", state);
  draw_tools(context);
}

void DistanceView::draw_table(const ViewContext& context, const DistanceResult& result) {
  const ImGuiTableFlags flags = ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH;
  if (!ImGui::BeginTable("numbers", 6, flags)) return;
  for (const char* name : {"near - far", "mean  [95 %]", "sigma", "skew", "above 0", "pairs"})
    ImGui::TableSetupColumn(name);
  ImGui::TableHeadersRow();
  const int64_t layer = context.state<DistanceState>().layer;
  for (const DistanceModel& model : result.models) {
    const protocol::NearFar* found = histogram_of(model, layer);
    if (!found) continue;
    const protocol::NearFar& h = *found;
    using widgets::short_number;
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    draw_name_in_color(context.session(), model.model);
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
  draw_questions(context, kDistance);
  const DistanceAnswers answers = shown_answers(context, kDistance);
  if (!answers.empty()) draw_results(context, answers);
}

void DistanceView::draw_results(ViewContext& context, const DistanceAnswers& answers) {
  const auto state = context.state<DistanceState>();
  const std::string key = answers.key(context);
  const DistanceResult& result = result_.get(key, [&] { return merged(answers); });
  const auto& plots = plots_.get(key + state.figure + std::to_string(state.layer), [&] {
    auto made = plots_shown(result, state, names_of(context.session()));
    shorten_labels(made);
    return made;
  });
  if (plots.empty())
    return widgets::draw_empty(
        "None of the open models has an intrinsic bias: it is defined for "
        "rotary encodings.");
  const Dimmed dimmed(answers.old);
  const bool table = state.figure == "near - far";
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float below = table ? line * (1.4F + 1.15F * static_cast<float>(result.models.size())) : 0;
  const auto count = static_cast<int>(plots.size());
  const float height = ImGui::GetContentRegionAvail().y - below;
  if (ImGui::BeginTable("plots", count, ImGuiTableFlags_SizingStretchSame)) {
    for (const PlotSpec& plot : plots) {
      ImGui::TableNextColumn();
      ImGui::PushID(&plot);
      if (ImGui::BeginChild("plot", {0, std::max(120.0F, height)})) {
        const Dimmed in_child(answers.old);
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
  if (table) draw_table(context, result);
}

}  // namespace phasescope::app
