#include "app/views/shift_view.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "app/figures/figures.h"
#include "app/window/session_requests.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::ShiftResult;
using protocol::ShiftRow;

ShiftResult merged_shift(const ViewContext& context) {
  ShiftResult all;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = context.of(i).shift.answer();
    if (!answer) continue;
    const ShiftResult& one = answer->result;
    all.rows.insert(all.rows.end(), one.rows.begin(), one.rows.end());
    all.provenance.insert(all.provenance.end(), one.provenance.begin(), one.provenance.end());
    all.formula = one.formula;
  }
  return all;
}

// With the models' short names, for figures and tables.
ShiftResult as_shown(const Session& session, ShiftResult result) {
  for (ShiftRow& row : result.rows) row.model = short_name(session, row.model);
  return result;
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

std::string ShiftView::command_line(const Session& session) const {
  if (session.models.empty()) return "";
  std::string line = verb_line(session, "shift") + text_option(session) + " --by ";
  for (std::size_t i = 0; i < session.shift.by.size(); ++i)
    line += (i ? "," : "") + std::to_string(session.shift.by[i]);
  return line;
}

void ShiftView::ask(ViewContext& context) {
  for (const std::string& model : context.session().models) {
    const Session session = context.session_for(model);
    context.requests.ask(context.requests.of(model).shift, shift_params(session, model),
                         session.text.words);
  }
}

Output ShiftView::exported(ViewContext& context) {
  Output output;
  const ShiftResult result = merged_shift(context);
  output.result = protocol::to_json_form(result);
  if (!result.rows.empty()) output.figures = {shift_figure(as_shown(context.session(), result))};
  return output;
}

void ShiftView::draw_table(const ViewContext& context, const ShiftResult& result) {
  const std::vector<Line> lines = lines_of(result);
  int64_t layers = 0;
  for (const ShiftRow& row : result.rows) layers = std::max(layers, row.layer + 1);
  const ImGuiTableFlags flags =
      ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_ScrollY;
  const int shown = static_cast<int>(std::min<int64_t>(layers, 12));
  if (!ImGui::BeginTable("shift", 3 + shown, flags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("model");
  ImGui::TableSetupColumn("shifted by");
  for (int layer = 0; layer < shown; ++layer)
    ImGui::TableSetupColumn(("L" + std::to_string(layer)).c_str());
  ImGui::TableSetupColumn("logits");
  ImGui::TableHeadersRow();
  for (const Line& line : lines) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::TextColored(widgets::series_vec(color_of_model(context.session(), line.model)), "%s",
                       line.model.c_str());
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
  ShiftState state = context.session().shift;
  std::vector<std::string> words;
  for (int64_t by : state.by) words.push_back(std::to_string(by));
  std::string shown = std::to_string(state.shown);
  if (draw_choice("##by", shown, words)) {
    state.shown = std::stoll(shown);
    context.edit.apply("Show another shift", [&](Session& s) { s.shift = state; });
  }
  tooltip("The shift of the figure; the table has all");
  draw_tools(context);
}

// One shift, a model's colour for both of its methods.
widgets::PlotSpec ShiftView::plot_of(const ViewContext& context, ShiftResult result) const {
  const int64_t shown = context.session().shift.shown;
  std::erase_if(result.rows, [&](const ShiftRow& row) { return row.by != shown; });
  widgets::PlotSpec plot = shift_figure(result);
  // A label is "MODEL METHOD by SHIFT", and a model's name may have spaces.
  for (widgets::Series& series : plot.series) {
    const std::string model = series.label.substr(0, series.label.rfind(" by "));
    series.color = color_of_model(context.session(), model.substr(0, model.rfind(' ')));
  }
  return plot;
}

void ShiftView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0)
    return widgets::draw_empty("Tick models to see what moving a text does to them.");
  for (std::size_t i = 0; i < context.models(); ++i)
    draw_question(context, context.of(i).shift,
                  short_name(context.session(), context.session().models[i]));
  const std::string key = names_key(context) + answers_key(context, &ModelQuestions::shift);
  const ShiftResult& result =
      result_.get(key, [&] { return as_shown(context.session(), merged_shift(context)); });
  if (result.rows.empty()) return;
  const auto& plot = plot_.get(key + std::to_string(context.session().shift.shown),
                               [&] { return plot_of(context, result); });
  const float height = ImGui::GetContentRegionAvail().y;
  if (ImGui::BeginChild("plot", {0, std::max(140.0F, height * 0.55F)})) {
    widgets::PlotDraw options;
    options.version = plot_.version();
    options.notes = false;
    widgets::draw_plot(plot, options);
  }
  ImGui::EndChild();
  if (ImGui::BeginChild(
          "table", {0, -widgets::notes_height(plot.notes, ImGui::GetContentRegionAvail().x) - 6}))
    draw_table(context, result);
  ImGui::EndChild();
  widgets::draw_notes(plot.notes);
}

}  // namespace phasescope::app
