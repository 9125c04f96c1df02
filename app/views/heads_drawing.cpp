// The pictures, the table and the scatter of the view Heads.
#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/views/controls_room.h"
#include "app/views/head_values.h"
#include "app/views/heads_view.h"
#include "app/views/intervene_view.h"
#include "widgets/color_scale.h"
#include "widgets/plot_draw.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

// In font sizes: panes that stand beside each other are no narrower.
constexpr float kNarrowest = 18;
// In font sizes: a choice among metrics has room for the longest of them ("Mean distance without
// key 0 (tokens)") before an answer says which there are, and in which units, so that what stands
// behind it stays where it is.
constexpr float kMetricChoice = 18, kNarrowMetricChoice = 6;

// What is measured of a model and not of a head, with its intervals.
std::string words_of_model(const protocol::HeadsResult& result) {
  std::string words = "Sink rate: share of heads whose weight on key 0 is above 0.3";
  for (const auto& [key, value] : result.model_values) {
    words += "\n" + heading_of(result, key) + " " + with_ends(value) + ", " + words_of(value);
  }
  return words;
}

using protocol::HeadsResult;
using protocol::Interval;
using protocol::MetricInfo;

}  // namespace

void HeadsView::draw_head_tooltip(const ViewContext& context, const HeadsAnswer& answer,
                                  int cell) const {
  const HeadsResult& result = answer.result;
  const auto* row = rows_by_cell(result)[static_cast<std::size_t>(cell)];
  if (!row || !ImGui::BeginTooltip()) return;
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::Text("%s %s", short_name(context.session(), result.model).c_str(),
              name_of_head(row->layer, row->head).c_str());
  ImGui::PopFont();
  if (ImGui::BeginTable("metrics", 2)) {
    for (const MetricInfo& metric : result.metrics) {
      const Interval* value = value_in(row, metric.key);
      if (!value) continue;
      ImGui::TableNextColumn();
      ImGui::TextColored(widgets::palette().quiet, "%s", heading_of(metric).c_str());
      ImGui::TableNextColumn();
      ImGui::TextUnformatted(widgets::text_of(cell_of_table(value)).c_str());
    }
    ImGui::EndTable();
  }
  ImGui::EndTooltip();
}

void HeadsView::draw_choices_of_reading(ViewContext& context) {
  auto state = context.state<HeadsState>();
  const std::vector<std::string> sources{"this text", "corpus"};
  std::string source = sources[state.corpus() ? 1 : 0];
  next_control(choice_width(sources));
  bool changed = draw_choice("##source", source, sources);
  if (changed && source == "corpus") {
    state.options["corpus"] = true;
  } else if (changed) {
    state.options.erase("corpus");
  }
  tooltip(
      "this text: that of the Text view. corpus: the bundled validation texts, or those that the "
      "options name, with intervals");
  next_control(6 * ImGui::GetFontSize());
  changed |= form_.draw<protocol::HeadsRequest>(
      state.options, HeadsState{}.options, {"metrics", "thumbnails", "stack", "device", "threads"});
  if (changed) context.set_state("Read another source", state);
  const auto several = [&](const std::string& model) { return context.has_stacks(model); };
  if (std::ranges::any_of(context.session().models, several)) draw_stack_choice(context);
}

void draw_stack_choice(ViewContext& context) {
  std::string stack = context.session().selection.stack;
  if (stack.empty()) stack = "dec";
  const std::vector<std::string> names{"dec", "enc", "cross"};
  next_control(choice_width(names));
  if (draw_choice("##stack", stack, names)) {
    context.edit.apply("Show stack " + stack, [&](Session& s) { s.selection.stack = stack; });
  }
  tooltip("Heads of the decoder, of the encoder, or of the decoder's attention to the encoder");
}

bool HeadsView::draw_metric_choice(const ViewContext& context, const char* label,
                                   std::string& metric, const std::vector<std::string>& keys,
                                   float width) {
  const auto heading = [&](const std::string& key) { return heading_in(context, key); };
  return draw_named_choice(label, metric, keys, heading, width);
}

void HeadsView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<HeadsState>();
  const auto* answer = first_answer(context);
  const auto keys = answer ? metric_keys(answer->result) : std::vector<std::string>{state.metric};
  bool changed = draw_metric_choice(context, "##metric", state.metric, keys,
                                    kMetricChoice * ImGui::GetFontSize());
  if (answer) {
    if (const MetricInfo* metric = metric_of(answer->result, state.metric)) {
      tooltip(described(*metric));
    }
  }
  next_control(checkbox_width("Sort"));
  changed |= ImGui::Checkbox("Sort", &state.sorted);
  tooltip(
      "Largest first (smallest where the table is sorted so); otherwise layers down, heads across");
  for (const auto& [title, shown, help] :
       {std::tuple("Pictures", &state.pictures, "Every head as a thumbnail of its map"),
        std::tuple("Table", &state.table, "Every head as a row of all metrics"),
        std::tuple("Scatter", &state.scatter, "Every head as a point between two metrics")}) {
    next_control(checkbox_width(title));
    changed |= ImGui::Checkbox(title, shown);
    tooltip(help);
  }
  if (changed) context.set_state("Arrange heads", state);
  draw_choices_of_reading(context);
  draw_tools(context);
}

// The mean of every metric over the chosen heads, each counting once: a line that is always there,
// so that no picture moves under the hand that chooses. Hovered, it says all that it has no room
// for.
void HeadsView::draw_chosen(ViewContext& context) {
  auto state = context.state<HeadsState>();
  std::map<std::string, std::pair<double, int>> sums;
  int heads = 0;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = answer_of(context, i);
    if (!answer || state.chosen.empty()) continue;
    const auto rows = rows_by_cell(answer->result);
    for (const ChosenHead& head : state.chosen) {
      const int cell = cell_of(answer->result, head.layer, head.head);
      if (head.model != context.session().models[i] || cell < 0) continue;
      ++heads;
      if (!rows[static_cast<std::size_t>(cell)]) continue;
      for (const auto& [metric, value] : rows[static_cast<std::size_t>(cell)]->values) {
        if (!std::isnan(value.mean)) sums[metric].first += value.mean, ++sums[metric].second;
      }
    }
  }
  if (heads == 0) {
    return draw_cut_line("Ctrl+click heads for their mean", widgets::palette().quiet);
  }
  std::string words = "Mean of " + std::to_string(heads) + (heads == 1 ? " head:" : " heads:");
  std::string lines = words;
  const auto add = [&](const std::string& metric, const std::pair<double, int>& sum) {
    const std::string mean =
        heading_in(context, metric) + " " + widgets::short_number(sum.first / sum.second);
    words += "  " + mean, lines += "\n" + mean;
  };
  // That of the pictures first: there may be room for no other.
  if (const auto shown = sums.find(state.metric); shown != sums.end()) {
    add(shown->first, shown->second);
  }
  for (const auto& [metric, sum] : sums) {
    if (metric != state.metric) add(metric, sum);
  }
  if (ImGui::SmallButton("Clear")) {
    state.chosen.clear();
    context.set_state("Choose no heads", state);
  }
  ImGui::SameLine();
  widgets::draw_line(words, ImGui::GetContentRegionAvail().x);
  tooltip(lines);
}

void HeadsView::draw_model_line(ViewContext& context, std::size_t index) {
  draw_model_name(context.session(), index);
  draw_question(context, context.of(kHeads, index), "");
  const auto* answer = answer_of(context, index);
  if (!answer) return;
  ImGui::SameLine();
  ImGui::TextColored(widgets::palette().quiet, "sinks %s %%",
                     widgets::short_number(100 * answer->result.sink_rate).c_str());
  tooltip(words_of_model(answer->result));
  const WhatRan ran = what_ran(answer->result.provenance);
  ImGui::SameLine();
  if (!ran.fell_back &&
      ImGui::CalcTextSize(ran.words.c_str()).x > ImGui::GetContentRegionAvail().x) {
    return ImGui::NewLine();
  }
  ImGui::TextColored(kernel_color(ran), "%s", ran.words.c_str());
  tooltip("Attention was run by: " + ran.words);
}

// The graphics card is given those of one model a frame.
void HeadsView::make_pictures(ViewContext& context, const HeadsAnswer& answer, Grid& grid) {
  const auto taken = grid.pictures.take(answer, !made_pictures_);
  if (taken == HeadPictures::Taken::later) context.window.moving = true;
  if (taken == HeadPictures::Taken::now) made_pictures_ = true;
}

void HeadsView::draw_model(ViewContext& context, std::size_t index, const Places& places) {
  draw_model_line(context, index);
  const auto* answer = answer_of(context, index);
  if (!answer) return;
  Grid& grid = grids_[context.session().models[index]];
  make_pictures(context, *answer, grid);
  const widgets::HeadGridSpec& spec = spec_of(context, index);
  widgets::HeadGridDraw draw{.fit = fit_of(context, index, places.room, places.captions)};
  if (draw.fit.captions != widgets::HeadCaptions::none) {
    draw.captions = &captions_of(context, index);
  }
  const int begin = context.state<HeadsState>().search.empty() ? -1 : rows(context).begin[index];
  if (begin >= 0) {
    draw.found = std::span<const char>(found_rows(context))
                     .subspan(static_cast<std::size_t>(begin), cells_of(answer->result));
  }
  const Selection& at = context.session().selection;
  if (at.model == static_cast<std::int64_t>(index)) {
    draw.selected = cell_of(answer->result, at.layer, at.head);
  }
  if (const Place hovered = place_of_row(context, row_of(context, context.hover()));
      hovered.model == index) {
    draw.hovered = hovered.cell;
  }
  std::vector<char> chosen(cells_of(answer->result), 0);
  for (const ChosenHead& head : context.state<HeadsState>().chosen) {
    if (const int cell = cell_of(answer->result, head.layer, head.head);
        cell >= 0 && head.model == context.session().models[index]) {
      chosen[static_cast<std::size_t>(cell)] = 1;
    }
  }
  draw.chosen = &chosen;
  const auto drawn = [&] {
    const Dimmed dimmed(!context.of(kHeads, index).answers_now());
    return widgets::draw_head_grid(spec, grid.pictures.texture(), draw);
  }();
  if (ImGui::BeginPopupContextItem("head menu")) {
    draw_intervention_menu(context);
    ImGui::Separator();
    draw_menu_items(context);
    ImGui::EndPopup();
  }
  if (drawn.stepped >= 0) select_cell(context, {index, drawn.stepped});
  if (drawn.hovered < 0) return;
  draw_head_tooltip(context, *answer, drawn.hovered);
  // The menu is about the head that it was asked for at.
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Right)) select_cell(context, {index, drawn.hovered});
  point_at_head(context, {index, drawn.hovered});
  if (drawn.clicked >= 0) take(context, {index, drawn.clicked});
}

void HeadsView::draw_pictures(ViewContext& context) {
  made_pictures_ = false;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const Places& places =
      places_.get(places_key(context, room), [&] { return best_places(context, room); });
  if (!ImGui::BeginTable("models", places.columns, ImGuiTableFlags_SizingStretchSame)) return;
  for (std::size_t i = 0; i < context.models(); ++i) {
    ImGui::TableNextColumn();
    ImGui::PushID(static_cast<int>(i));
    draw_model(context, i, places);
    ImGui::PopID();
  }
  ImGui::EndTable();
}

// The table's arrangement is that of the session, whoever changed it.
void HeadsView::draw_table(ViewContext& context) {
  const Rows& all = rows(context);
  auto state = context.state<HeadsState>();
  widgets::TableArrangement wanted{.search = state.search};
  const auto column = std::ranges::find(all.metrics, state.metric);
  if (state.sorted && column != all.metrics.end()) {
    wanted.column = static_cast<int>(column - all.metrics.begin()) + kNameColumns,
    wanted.descending = !state.ascending;
  }
  if (!(wanted == shown_)) table_.arrange(wanted);
  shown_ = wanted;
  const Selection& at = context.session().selection;
  widgets::TableDraw options;
  options.hint = "Search, or a condition: entropy>2";
  options.version = rows_version_;
  options.hovered = row_of(context, context.hover());
  const int selected = row_of(context, marks_of(at));
  options.selected = [&](int row) {
    const Place place = place_of_row(context, row);
    return row == selected ||
           state.is_chosen(chosen_head(context, place.model,
                                       answer_of(context, place.model)->result, place.cell));
  };
  options.menu = [&](int) { draw_menu_items(context); };
  const auto drawn = table_.draw(all.table, options);
  point_at_head(context, place_of_row(context, drawn.hovered));
  take(context, place_of_row(context, drawn.clicked));
  if (!drawn.arranged) return;
  const widgets::TableArrangement& now = table_.arrangement();
  state = context.state<HeadsState>();
  state.search = now.search;
  // Names are the table's own; pictures follow a metric.
  const bool by_metric = now.column >= kNameColumns;
  if (by_metric) state.metric = all.metrics[static_cast<std::size_t>(now.column - kNameColumns)];
  if (now.column != shown_.column || now.descending != shown_.descending) {
    state.sorted = by_metric, state.ascending = by_metric && !now.descending;
  }
  shown_ = now;
  if (!by_metric) shown_.column = -1, shown_.descending = true;
  context.set_state("Arrange heads", state, "arrange heads");
}

void HeadsView::draw_scatter(ViewContext& context) {
  auto state = context.state<HeadsState>();
  const std::vector<std::string>& keys = rows(context).metrics;
  const ImGuiStyle& style = ImGui::GetStyle();
  const float labels = ImGui::CalcTextSize("upacross").x + 2 * style.ItemInnerSpacing.x;
  const float room = ImGui::GetContentRegionAvail().x - labels - style.ItemSpacing.x;
  const float width = std::clamp(room / 2, kNarrowMetricChoice * ImGui::GetFontSize(),
                                 kMetricChoice * ImGui::GetFontSize());
  bool changed = draw_metric_choice(context, "up", state.up, keys, width);
  ImGui::SameLine();
  changed |= draw_metric_choice(context, "across", state.across, keys, width);
  if (changed) context.set_state("Scatter other metrics", state);
  if (const std::string words = words_left_out(context); !words.empty()) {
    ImGui::TextColored(widgets::palette().quiet, "%s", words.c_str());
  }
  const widgets::PlotSpec& plot = scatter_.get(
      std::to_string(rows_version_) + "/" + state.up + "/" + state.across + "/" + state.search,
      [&] { return scatter_of(context); });
  widgets::PlotDraw options;
  options.version = scatter_.version();
  options.notes = false;
  const auto ring = [&](int row, const ImVec4& color) {
    const Place place = place_of_row(context, row);
    if (place.cell < 0) return;
    const widgets::Series& series = plot.series[place.model];
    const auto at = static_cast<std::size_t>(place.cell);
    if (std::isnan(series.x[at]) || std::isnan(series.y[at])) return;
    options.rings.push_back({series.x[at], series.y[at], color});
  };
  ring(row_of(context, context.hover()), widgets::palette().accent);
  ring(row_of(context, marks_of(context.session().selection)), widgets::palette().warn);
  const auto drawn = draw_figure(context, plot, options);
  const widgets::NearPoint* best = widgets::nearest(drawn.near);
  if (!best) return;
  const Place place{best->series, static_cast<int>(best->point)};
  point_at_head(context, place);
  if (drawn.clicked) take(context, place);
}

// Whether the pictures are larger in a part of the room's width than in that part of its height.
bool HeadsView::larger_beside(const ViewContext& context, ImVec2 room, ImVec2 whole, float part) {
  if (!context.state<HeadsState>().pictures || part >= 1) return room.x > room.y;
  return beside_.get(places_key(context, room) + std::to_string(part), [&] {
    return best_places(context, {whole.x * part, room.y}).pixels >
           best_places(context, {room.x, whole.y * part}).pixels;
  });
}

// One pane fills the room; several share its width or its height, which is scrolled where it is too
// low for what they show.
void HeadsView::draw_panes(ViewContext& context, ImVec2 room) {
  using Draw = void (HeadsView::*)(ViewContext&);
  struct Pane {
    const char* name;
    Draw draw;
    float part;    // of the room, beside the others
    float lowest;  // in font sizes
  };
  const auto state = context.state<HeadsState>();
  std::vector<Pane> panes;
  if (state.pictures) panes.push_back({"pictures", &HeadsView::draw_pictures, 1.6F, 9});
  if (state.table) panes.push_back({"table", &HeadsView::draw_table, 1, 9});
  if (state.scatter) panes.push_back({"scatter", &HeadsView::draw_scatter, 1.2F, 16});
  if (panes.empty()) return widgets::draw_empty("Tick Pictures, Table or Scatter above.");
  float parts = 0;
  for (const Pane& pane : panes) parts += pane.part;
  const ImVec2 gap = ImGui::GetStyle().ItemSpacing;
  const auto count = static_cast<float>(panes.size() - 1);
  const ImVec2 whole{room.x - gap.x * count, room.y - gap.y * count};
  const bool beside = whole.x / parts > ImGui::GetFontSize() * kNarrowest &&
                      larger_beside(context, room, whole, panes.front().part / parts);
  for (const Pane& pane : panes) {
    const float part = pane.part / parts;
    if (beside && &pane != &panes.front()) ImGui::SameLine();
    const float high = std::max(whole.y * part, ImGui::GetFontSize() * pane.lowest);
    const ImVec2 size = beside ? ImVec2(whole.x * part, room.y) : ImVec2(0, high);
    if (ImGui::BeginChild(pane.name, size, ImGuiChildFlags_NavFlattened)) {
      (this->*pane.draw)(context);
    }
    ImGui::EndChild();
  }
}

std::vector<std::string> HeadsView::notes_of(const ViewContext& context) {
  const auto* answer = first_answer(context);
  if (!answer) return {};
  std::vector<std::string> notes;
  if (const MetricInfo* metric = metric_of(answer->result, context.state<HeadsState>().metric)) {
    notes.push_back(metric->title + " = " + metric->formula);
  }
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* own = answer_of(context, i);
    if (!own) continue;
    for (std::string& weights : notes_of_weights(own->result.provenance.note)) {
      notes.push_back(std::move(weights));
    }
    if (own->result.stack.empty()) continue;
    notes.push_back(short_name(context.session(), context.session().models[i]) + ": " +
                    stack_note(own->result.stack));
  }
  if (!context.state<HeadsState>().pictures) return notes;
  widgets::CellMarks marks;
  for (const std::string& model : context.session().models) {
    marks.masked += grids_[model].pictures.marks().masked;
    marks.not_finite += grids_[model].pictures.marks().not_finite;
  }
  notes.push_back(std::string("weights 0 .. 1, ") +
                  (widgets::is_dark() ? "dark to white" : "white to blue") +
                  "; a cell shows its largest weight; " + widgets::marks_text(marks));
  return notes;
}

void HeadsView::draw_content(ViewContext& context) {
  made_rows_ = 0;
  draw_controls(context);
  if (context.models() == 0) {
    return widgets::draw_empty("Every head of the open models will be here. Tick a model.");
  }
  const std::vector<std::string> notes = notes_of(context);
  ImVec2 room = ImGui::GetContentRegionAvail();
  const float below =
      widgets::notes_height(notes, room.x) + ImGui::GetTextLineHeightWithSpacing() + 6;
  room.y = std::max(120.0F, room.y - below);
  if (ImGui::BeginChild("panes", room, ImGuiChildFlags_NavFlattened)) draw_panes(context, room);
  ImGui::EndChild();
  if (!rows_whole_) context.window.moving = true;
  if (context.state<HeadsState>().pictures) {
    widgets::draw_color_line(look_of_pictures());
    ImGui::SameLine(0, ImGui::GetFontSize() * 1.5F);
  }
  draw_chosen(context);
  widgets::draw_notes(notes);
}

}  // namespace phasescope::app
