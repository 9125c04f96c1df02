#include "app/views/heads_view.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "app/figures/figures.h"
#include "app/verbs/verb_tools.h"
#include "widgets/plot_draw.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

// Below so many font sizes a thumbnail has no room for its caption.
constexpr float kReadable = 2.8F;
// Cells of a thumbnail's edge, as asked for.
constexpr int64_t kThumbnailSide = 64;

using protocol::HeadsResult;
using protocol::MetricInfo;

const protocol::HeadRow* row_of(const HeadsResult& result, int64_t layer, int64_t head) {
  for (const protocol::HeadRow& row : result.rows)
    if (row.layer == layer && row.head == head) return &row;
  return nullptr;
}

double value_of(const HeadsResult& result, int cell, const std::string& metric) {
  const auto* row = row_of(result, cell / result.heads, cell % result.heads);
  if (!row || !row->values.contains(metric)) return std::nan("");
  return row->values.at(metric).mean;
}

const MetricInfo* metric_of(const HeadsResult& result, const std::string& key) {
  for (const MetricInfo& metric : result.metrics)
    if (metric.key == key) return &metric;
  return nullptr;
}

std::vector<std::string> metric_keys(const HeadsResult& result) {
  std::vector<std::string> keys;
  for (const MetricInfo& metric : result.metrics) keys.push_back(metric.key);
  return keys;
}

// Largest first; heads without the metric last.
std::vector<int> order_by(const HeadsResult& result, const std::string& metric) {
  std::vector<int> order(static_cast<std::size_t>(result.layers * result.heads));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  const auto rank = [&](int cell) {
    const double value = value_of(result, cell, metric);
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) > rank(b); });
  return order;
}

const Answer<HeadsResult>* first_answer(const ViewContext& context) {
  const auto answers = shown_answers(context, kHeads);
  return answers.empty() ? nullptr : answers.list.front();
}

}  // namespace

std::string HeadsView::help_text() const {
  return "Every head of every open model on the present text: layers down, heads across, queries "
         "from top to bottom, keys from left to right. White to blue is weight 0 to 1, the same "
         "for "
         "all; a cell of a thumbnail shows its largest weight; the masked triangle is grey. Sort "
         "by "
         "any metric; hover for all of them; click to open a head in the other views.";
}

void HeadsView::add_commands(std::vector<Command>& list) const {
  list.push_back(
      {"heads.sort", "Heads: sort by the metric, or not", "", 0, [](ViewContext& context) {
         auto state = context.state<HeadsState>();
         state.sorted = !state.sorted;
         context.set_state("Sort heads", state);
       }});
}

std::string HeadsView::command_line(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  if (model.empty()) return "";
  const auto state = context.state<HeadsState>();
  return command_of<protocol::HeadsRequest>({context.requests.of(kHeads, model).asked()}) +
         (state.sorted ? " --sort " + state.metric : "");
}

void HeadsView::ask(ViewContext& context) {
  ask_of_all(context, kHeads, [](const std::string& model, const TextInput& text) {
    protocol::HeadsRequest request{.model = model};
    request.thumbnails = kThumbnailSide;
    set_text(request.reading, text);
    return request;
  });
}

std::vector<Saved> HeadsView::saved(ViewContext& context) {
  std::vector<Saved> all;
  const ModelNames names = names_of(context.session());
  const std::string metric = context.state<HeadsState>().metric;
  for (const auto* answer : shown_answers(context, kHeads).list) {
    Output output{.result = protocol::to_json_form(answer->result),
                  .provenance = provenance_of(answer->result)};
    output.tables = {heads_table(answer->result, output.result["rows"])};
    output.figures = {metric_map_figure(answer->result, metric, names)};
    if (const auto* tensor = protocol::find_tensor(answer->tensors, "thumbnails"))
      output.grids = {head_grid_figure(answer->result, grid_of(*tensor), metric, names)};
    all.push_back({names.file_name(answer->result.model), std::move(output),
                   command_of<protocol::HeadsRequest>({answer->asked})});
  }
  return all;
}

widgets::HeadGridSpec HeadsView::spec_of(const ViewContext& context, std::size_t index,
                                         const HeadsAnswer& answer) const {
  const HeadsResult& result = answer.result;
  widgets::HeadGridSpec spec;
  spec.layers = static_cast<int>(result.layers);
  spec.heads = static_cast<int>(result.heads);
  const auto* tensor = protocol::find_tensor(answer.tensors, "thumbnails");
  spec.side = tensor && tensor->shape.size() == 4 ? static_cast<int>(tensor->shape[3]) : 0;
  const Session& session = context.session();
  const auto state = context.state<HeadsState>();
  const std::string& metric = state.metric;
  for (int cell = 0; cell < spec.layers * spec.heads; ++cell) {
    const double value = value_of(result, cell, metric);
    std::string caption = name_of_head(cell / spec.heads, cell % spec.heads);
    if (!std::isnan(value)) caption += "  " + widgets::short_number(value);
    spec.captions.push_back(std::move(caption));
    spec.dimmed.push_back(state.filtered && !(value >= state.at_least));
  }
  if (state.sorted) spec.order = order_by(result, metric);
  if (session.selection.model == static_cast<int64_t>(index) && session.selection.head >= 0)
    spec.selected =
        static_cast<int>(session.selection.layer * result.heads + session.selection.head);
  return spec;
}

void HeadsView::draw_head_tooltip(const ViewContext& context, const HeadsAnswer& answer,
                                  int cell) const {
  const HeadsResult& result = answer.result;
  const auto* row = row_of(result, cell / result.heads, cell % result.heads);
  if (!row || !ImGui::BeginTooltip()) return;
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::Text("%s %s", short_name(context.session(), result.model).c_str(),
              name_of_head(row->layer, row->head).c_str());
  ImGui::PopFont();
  if (ImGui::BeginTable("metrics", 2)) {
    for (const MetricInfo& metric : result.metrics) {
      const auto found = row->values.find(metric.key);
      if (found == row->values.end()) continue;
      ImGui::TableNextColumn();
      ImGui::TextColored(widgets::palette().quiet, "%s", metric.key.c_str());
      ImGui::TableNextColumn();
      number_cell(found->second.mean);
    }
    ImGui::EndTable();
  }
  ImGui::EndTooltip();
}

void HeadsView::draw_controls(ViewContext& context) {
  auto state = context.state<HeadsState>();
  const auto* answer = first_answer(context);
  const auto keys = answer ? metric_keys(answer->result) : std::vector<std::string>{state.metric};
  bool changed = draw_choice("##metric", state.metric, keys);
  if (answer)
    if (const MetricInfo* metric = metric_of(answer->result, state.metric))
      tooltip(metric->title + " = " + metric->formula +
              (metric->note.empty() ? "" : "\n" + metric->note));
  ImGui::SameLine();
  changed |= ImGui::Checkbox("Sort", &state.sorted);
  tooltip("Largest first; otherwise layers down, heads across");
  ImGui::SameLine();
  changed |= ImGui::Checkbox("At least", &state.filtered);
  tooltip("Fade the heads whose metric is below");
  if (state.filtered) {
    ImGui::SameLine();
    ImGui::SetNextItemWidth(ImGui::GetFontSize() * 5);
    changed |= ImGui::InputDouble("##least", &state.at_least, 0, 0, "%.3g");
  }
  if (changed) context.set_state("Arrange heads", state);
  draw_tools(context);
}

void HeadsView::draw_model(ViewContext& context, std::size_t index) {
  auto& question = context.of(kHeads, index);
  draw_model_name(context.session(), index);
  draw_question(context, question, "");
  const auto* answer = question.answer();
  if (!answer) return;
  ImGui::SameLine();
  ImGui::TextColored(widgets::palette().quiet, "sinks %s %%",
                     widgets::short_number(100 * answer->result.sink_rate).c_str());
  tooltip("Sink rate: share of heads whose weight on key 0 is above 0.3");
  const WhatRan ran = what_ran(answer->result.provenance);
  ImGui::SameLine();
  ImGui::TextColored(kernel_color(ran), "%s", ran.words.c_str());
  tooltip("Attention was run by: " + ran.words);
  Grid& grid = grids_[context.session().models[index]];
  const auto* tensor = protocol::find_tensor(answer->tensors, "thumbnails");
  if (tensor && grid.atlas_serial != answer->serial) {
    const auto atlas = widgets::atlas_of(
        static_cast<int>(answer->result.layers), static_cast<int>(answer->result.heads),
        static_cast<int>(tensor->shape.at(3)), grid_of(*tensor).values);
    grid.atlas.set_values(atlas.rows, atlas.cols, atlas.values);
    grid.marks = widgets::marks_of(atlas.values);
    grid.atlas_serial = answer->serial;
  }
  const std::string key = serials_of(answer) + std::to_string(context.edit.revision());
  widgets::HeadGridSpec spec = grid.spec.get(key, [&] { return spec_of(context, index, *answer); });
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float line = ImGui::GetFontSize() * 1.35F;
  const float gap = ImGui::GetFontSize() * 0.45F;
  const float wide = room.x / static_cast<float>(spec.heads) - gap;
  spec.cell_pixels = std::min(wide, (room.y - 4) / static_cast<float>(spec.layers) - line - gap);
  if (spec.cell_pixels < kReadable * ImGui::GetFontSize()) {
    // So many heads fit only as small pictures without words; their names are on hover.
    spec.captions.clear();
    spec.cell_pixels = std::min(wide, (room.y - 4) / static_cast<float>(spec.layers) - gap);
  }
  const auto drawn = [&] {
    const Dimmed dimmed(!question.answers_now());
    return widgets::draw_head_grid(spec, grid.atlas);
  }();
  if (drawn.hovered >= 0) draw_head_tooltip(context, *answer, drawn.hovered);
  if (drawn.clicked >= 0)
    select_head(context, static_cast<int64_t>(index), drawn.clicked / spec.heads,
                drawn.clicked % spec.heads);
}

void HeadsView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0)
    return widgets::draw_empty("Every head of the open models will be here. Tick a model.");
  std::vector<std::string> notes;
  if (const auto* answer = first_answer(context)) {
    if (const MetricInfo* metric = metric_of(answer->result, context.state<HeadsState>().metric))
      notes.push_back(metric->title + " = " + metric->formula);
    for (std::size_t i = 0; i < context.models(); ++i) {
      const auto* own = context.of(kHeads, i).answer();
      if (!own || own->result.stack.empty()) continue;
      notes.push_back(short_name(context.session(), context.session().models[i]) + ": " +
                      stack_note(own->result.stack));
    }
    widgets::CellMarks marks;
    for (const std::string& model : context.session().models) {
      marks.masked += grids_[model].marks.masked;
      marks.not_finite += grids_[model].marks.not_finite;
    }
    notes.push_back("weights 0 .. 1, white to blue; a cell shows its largest weight; " +
                    widgets::marks_text(marks));
  }
  const float width = ImGui::GetContentRegionAvail().x;
  const float below = widgets::notes_height(notes, width) + 6;
  const float height = std::max(120.0F, ImGui::GetContentRegionAvail().y - below);
  if (ImGui::BeginChild("grids", {0, height})) {
    const int columns = static_cast<int>(context.models());
    if (ImGui::BeginTable("models", columns, ImGuiTableFlags_SizingStretchSame)) {
      for (std::size_t i = 0; i < context.models(); ++i) {
        ImGui::TableNextColumn();
        ImGui::PushID(static_cast<int>(i));
        if (ImGui::BeginChild("grid", {0, height - 8})) draw_model(context, i);
        ImGui::EndChild();
        ImGui::PopID();
      }
      ImGui::EndTable();
    }
  }
  ImGui::EndChild();
  widgets::draw_notes(notes);
}

}  // namespace phasescope::app
