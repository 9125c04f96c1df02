#include "app/views/shift_view.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/figures/figures.h"
#include "app/verbs/verb_tools.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::ShiftResult;
using protocol::ShiftRow;

// Of one table of Dear ImGui.
constexpr int kMostColumns = 512;

ShiftResult merged(const ShownAnswers<ShiftResult>& answers) {
  ShiftResult all;
  for (const auto* answer : answers.list) {
    const ShiftResult& one = answer->result;
    all.rows.insert(all.rows.end(), one.rows.begin(), one.rows.end());
    all.provenance.insert(all.provenance.end(), one.provenance.begin(), one.provenance.end());
    all.formula = one.formula;
  }
  return all;
}

// One line of the paper's table: a model, a method and a shift, with a value for each layer.
struct Line {
  std::string model, method, dtype;
  int64_t by = 0;
  std::map<int64_t, const ShiftRow*> layers;
};

std::vector<Line> lines_of(const ShiftResult& result) {
  std::vector<Line> lines;
  for (const ShiftRow& row : result.rows) {
    auto found = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return line.model == row.model && line.method == row.method && line.by == row.by &&
             line.dtype == row.dtype;
    });
    if (found == lines.end())
      found = lines.insert(lines.end(), {row.model, row.method, row.dtype, row.by, {}});
    found->layers[row.layer] = &row;
  }
  return lines;
}

}  // namespace

std::string ShiftView::help_text() const {
  return "\"ids\": position ids start at k; a relative encoding must not notice. \"tokens\": k "
         "[BOS] "
         "tokens stand before the text; attention over the original tokens may change. The "
         "attention "
         "difference is in units of 0.01 (TAPE, Table 8): mean over heads and queries of the "
         "summed "
         "absolute change of the weights.";
}

void ShiftView::ask(ViewContext& context) {
  const auto by = context.state<ShiftState>().by;
  ask_of_all(context, kShift, [&](const std::string& model, const TextInput& text) {
    protocol::ShiftRequest request{.models = {model}};
    request.by = by;
    set_text(request.reading, text);
    return request;
  });
}

std::vector<Saved> ShiftView::saved(ViewContext& context) {
  const auto answers = shown_answers(context, kShift);
  if (answers.empty()) return {};
  const ShiftResult result = merged(answers);
  Output output{.result = protocol::to_json_form(result), .provenance = provenance_of(result)};
  output.tables = {shift_table(result)};
  output.figures = {shift_figure(result, names_of(context.session()))};
  return {{"", std::move(output), command_of<protocol::ShiftRequest>(answers.asked())}};
}

void ShiftView::draw_table(const ViewContext& context, const ShiftResult& result) {
  const std::vector<Line> lines = lines_of(result);
  int64_t layers = 0;
  for (const ShiftRow& row : result.rows) layers = std::max(layers, row.layer + 1);
  // Layers that have no room are scrolled to.
  const ImGuiTableFlags flags = ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_BordersInnerH |
                                ImGuiTableFlags_ScrollY | ImGuiTableFlags_ScrollX;
  const auto shown = static_cast<int>(std::min<int64_t>(layers, kMostColumns - 3));
  if (!ImGui::BeginTable("shift", 3 + shown, flags)) return;
  ImGui::TableSetupScrollFreeze(2, 1);
  ImGui::TableSetupColumn("model");
  ImGui::TableSetupColumn("shifted by");
  for (int layer = 0; layer < shown; ++layer)
    ImGui::TableSetupColumn(("L" + std::to_string(layer)).c_str());
  ImGui::TableSetupColumn("logits");
  ImGui::TableHeadersRow();
  for (const Line& line : lines) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    draw_name_in_color(context.session(), line.model);
    ImGui::TableNextColumn();
    ImGui::Text("%lld %s", static_cast<long long>(line.by), line.method.c_str());
    if (line.dtype != "f32") ImGui::SameLine(), ImGui::TextDisabled("%s", line.dtype.c_str());
    for (int layer = 0; layer < shown; ++layer) {
      ImGui::TableNextColumn();
      const auto found = line.layers.find(layer);
      if (found == line.layers.end()) continue;
      ImGui::Text("%.3g", found->second->attention_difference);
      if (found->second->position_difference)
        tooltip("PE dot products differ by " +
                widgets::short_number(*found->second->position_difference) + " %");
    }
    ImGui::TableNextColumn();
    const double logits = line.layers.begin()->second->logits_difference;
    if (std::isfinite(logits)) ImGui::Text("%.1e", logits);
  }
  ImGui::EndTable();
}

void ShiftView::draw_controls(ViewContext& context) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("shifted by");
  ImGui::SameLine();
  auto state = context.state<ShiftState>();
  std::vector<std::string> words;
  for (int64_t by : state.by) words.push_back(std::to_string(by));
  std::string shown = std::to_string(state.shown);
  if (draw_choice("##by", shown, words)) {
    state.shown = std::stoll(shown);
    context.set_state("Show another shift", state);
  }
  tooltip("The shift of the figure; the table has all");
  draw_tools(context);
}

// One shift, a model's colour for both of its methods.
widgets::PlotSpec ShiftView::plot_of(const ViewContext& context, ShiftResult result) const {
  const int64_t shown = context.state<ShiftState>().shown;
  std::erase_if(result.rows, [&](const ShiftRow& row) { return row.by != shown; });
  return shift_figure(result, names_of(context.session()));
}

void ShiftView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0)
    return widgets::draw_empty("Tick models to see what moving a text does to them.");
  draw_questions(context, kShift);
  const auto answers = shown_answers(context, kShift);
  if (!answers.empty()) draw_results(context, answers);
}

void ShiftView::draw_results(ViewContext& context, const ShownAnswers<ShiftResult>& answers) {
  const std::string key = answers.key(context);
  const ShiftResult& result = result_.get(key, [&] { return merged(answers); });
  const auto& plot = plot_.get(key + std::to_string(context.state<ShiftState>().shown),
                               [&] { return plot_of(context, result); });
  const float height = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginChild("plot", {0, std::max(140.0F, height * 0.55F)})) {
    const Dimmed dimmed(answers.old);
    widgets::PlotDraw options;
    options.version = plot_.version();
    options.notes = false;
    widgets::draw_plot(plot, options);
  }
  ImGui::EndChild();
  if (ImGui::BeginChild(
          "table", {0, -widgets::notes_height(plot.notes, ImGui::GetContentRegionAvail().x) - 6})) {
    const Dimmed dimmed(answers.old);
    draw_table(context, result);
  }
  ImGui::EndChild();
  widgets::draw_notes(plot.notes);
}

}  // namespace phasescope::app
