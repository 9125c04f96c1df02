#include "app/views/heads_view.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <tuple>

#include "app/figures/figures.h"
#include "app/verbs/verb_tools.h"
#include "app/views/intervene_view.h"
#include "widgets/plot_draw.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

// Cells of a thumbnail's edge, as asked for: fewer of a model whose heads are so many that none of
// them can be large.
constexpr int64_t kThumbnailSide = 64, kSideOfMany = 32, kManyHeads = 256;
// In font sizes: panes that stand beside each other are no narrower.
constexpr float kNarrowest = 22;
// Columns of the table before those of the metrics.
constexpr int kNameColumns = 2;
// Rows of the table that are made in one frame, but for the first model's.
constexpr std::size_t kRowsOfAFrame = 1024;

using protocol::HeadsResult;
using protocol::Interval;
using protocol::MetricInfo;

std::size_t cells_of(const HeadsResult& result) {
  return static_cast<std::size_t>(std::max<int64_t>(0, result.layers * result.heads));
}

int cell_of(const HeadsResult& result, int64_t layer, int64_t head) {
  const bool inside = layer >= 0 && head >= 0 && layer < result.layers && head < result.heads;
  return inside ? static_cast<int>(layer * result.heads + head) : -1;
}

// The row of each cell; nullptr of a head that the answer leaves out.
std::vector<const protocol::HeadRow*> rows_by_cell(const HeadsResult& result) {
  std::vector<const protocol::HeadRow*> rows(cells_of(result), nullptr);
  for (const protocol::HeadRow& row : result.rows)
    if (const int cell = cell_of(result, row.layer, row.head); cell >= 0)
      rows[static_cast<std::size_t>(cell)] = &row;
  return rows;
}

const Interval* value_in(const protocol::HeadRow* row, const std::string& metric) {
  if (!row) return nullptr;
  const auto found = row->values.find(metric);
  return found == row->values.end() ? nullptr : &found->second;
}

// Of each cell; NaN where a head has no such number.
std::vector<double> values_of(const HeadsResult& result, const std::string& metric) {
  std::vector<double> values(cells_of(result), std::nan(""));
  for (const protocol::HeadRow& row : result.rows)
    if (const int cell = cell_of(result, row.layer, row.head); cell >= 0)
      if (const Interval* value = value_in(&row, metric))
        values[static_cast<std::size_t>(cell)] = value->mean;
  return values;
}

// That of the first head.
double first_value(const HeadsResult& result, const std::string& metric) {
  const auto first = std::ranges::find_if(
      result.rows, [](const protocol::HeadRow& row) { return row.layer == 0 && row.head == 0; });
  const Interval* value = first == result.rows.end() ? nullptr : value_in(&*first, metric);
  return value ? value->mean : std::nan("");
}

const MetricInfo* metric_of(const HeadsResult& result, const std::string& key) {
  for (const MetricInfo& metric : result.metrics)
    if (metric.key == key) return &metric;
  return nullptr;
}

// Those that are one number a head.
std::vector<std::string> metric_keys(const HeadsResult& result) {
  std::vector<std::string> keys;
  for (const MetricInfo& metric : result.metrics) keys.push_back(metric.key);
  return keys;
}

// Largest first; heads without the metric last.
std::vector<int> order_by(const std::vector<double>& values) {
  std::vector<int> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  const auto rank = [&](int cell) {
    const double value = values[static_cast<std::size_t>(cell)];
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  };
  std::ranges::stable_sort(order, [&](int a, int b) { return rank(a) > rank(b); });
  return order;
}

const Answer<HeadsResult>* first_answer(const ViewContext& context) {
  const auto answers = shown_answers(context, kHeads);
  return answers.empty() ? nullptr : answers.list.front();
}

std::string described(const MetricInfo& metric) {
  return metric.title + " = " + metric.formula + (metric.note.empty() ? "" : "\n" + metric.note);
}

widgets::TableCell cell_of_table(const Interval* value) {
  if (!value) return widgets::number_cell_of(std::nan(""));
  if (!value->known()) return widgets::number_cell_of(value->mean);
  return widgets::number_cell_of(value->mean, value->low.value_or(std::nan("")),
                                 value->high.value_or(std::nan("")));
}

// What stands under a head's picture, whole and where there is less room: sorted ones are told by
// their names, the others stand at their place.
struct HeadCaption {
  std::string full, brief;
};
HeadCaption caption_of(const HeadsResult& result, int64_t cell, double value, bool sorted) {
  const std::string name = name_of_head(cell / result.heads, cell % result.heads);
  if (std::isnan(value)) return {name, name};
  const std::string number = widgets::short_number(value);
  return {name + "  " + number, sorted ? name : number};
}

ChosenHead chosen_head(const ViewContext& context, std::size_t model, const HeadsResult& result,
                       int cell) {
  return {context.session().models[model], cell / result.heads, cell % result.heads};
}

bool is_chosen(const HeadsState& state, const ChosenHead& head) {
  return std::ranges::find(state.chosen, head) != state.chosen.end();
}

}  // namespace

std::string HeadsView::help_text() const {
  return "Every head of every open model. Pictures: layers down, heads across, queries from top to "
         "bottom, keys from left to right; white to blue (on a dark ground dark to white) is "
         "weight 0 to 1, the same for all; a "
         "cell of a thumbnail shows its largest weight; the masked triangle is grey. Table: every "
         "metric, sorted by a click on its title, searched by name or by a condition as "
         "entropy>2. Scatter: one metric over another. Click to open a head in the other views, "
         "Ctrl and click to choose several for their mean.";
}

void HeadsView::add_commands(std::vector<Command>& list) const {
  list.push_back(
      {"heads.sort", "Heads: sort by the metric, or not", "",
       ImGuiMod_Alt | ImGuiMod_Shift | ImGuiKey_S, [](ViewContext& context) {
         auto state = context.state<HeadsState>();
         state.sorted = !state.sorted;
         context.set_state("Sort heads", state);
       }});
  struct Pane {
    const char *id, *title;
    bool HeadsState::*shown;
    ImGuiKey key;
  };
  for (const Pane pane :
       {Pane{"pictures", "Heads: pictures, or none", &HeadsState::pictures,
             ImGuiKey_P},
        Pane{"table", "Heads: table of all metrics, or none", &HeadsState::table, ImGuiKey_T},
        Pane{"scatter", "Heads: scatter of two metrics, or none", &HeadsState::scatter,
             ImGuiKey_C}})
    list.push_back({std::string("heads.") + pane.id, pane.title, "",
                    ImGuiMod_Alt | ImGuiMod_Shift | pane.key,
                    [shown = pane.shown](ViewContext& context) {
                      auto state = context.state<HeadsState>();
                      state.*shown = !(state.*shown);
                      context.set_state("Arrange heads", state);
                    }});
}

std::string HeadsView::command_line(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  if (model.empty()) return "";
  const auto state = context.state<HeadsState>();
  return command_of<protocol::HeadsRequest>({context.requests.of(kHeads, model).asked()}) +
         (state.sorted ? " --sort " + state.metric : "");
}

// A stack is asked for of a model that is known to have several.
void HeadsView::ask(ViewContext& context) {
  const nlohmann::json options = context.state<HeadsState>().options;
  const std::string stack = context.session().selection.stack;
  ask_of_all(context, kHeads, [&](const std::string& model, const TextInput& text) {
    auto request = with_choices(protocol::HeadsRequest{.model = model}, options);
    const auto* report = context.info(model);
    const bool many = report && report->model.layers * report->model.heads > kManyHeads;
    request.thumbnails = many ? kSideOfMany : kThumbnailSide;
    const auto* before = context.requests.of(kHeads, model).answer();
    if (before && !before->result.stack.empty()) request.stack = stack;
    set_text(request.reading, text);
    return request;
  });
}

const HeadsView::HeadsAnswer* HeadsView::answer_of(const ViewContext& context,
                                                   std::size_t index) const {
  return context.of(kHeads, index).answer();
}

// --- what is made of the answers --------------------------------------------------------------

// The columns of all metrics that any model has, without rows.
HeadsView::Rows HeadsView::columns(const ViewContext& context) const {
  Rows rows;
  rows.table.id = "heads_table";
  rows.table.frozen = kNameColumns;
  rows.table.columns = {{"model", "", false}, {"head", "", false}};
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = answer_of(context, i);
    for (const MetricInfo& metric : answer ? answer->result.metrics : std::vector<MetricInfo>()) {
      if (std::ranges::find(rows.metrics, metric.key) != rows.metrics.end()) continue;
      rows.metrics.push_back(metric.key);
      rows.table.columns.push_back({metric.key, described(metric)});
    }
  }
  return rows;
}

// Those of one model behind the others.
void HeadsView::add_rows(const ViewContext& context, std::size_t index, Rows& rows) const {
  const HeadsResult& result = answer_of(context, index)->result;
  const std::string name = short_name(context.session(), context.session().models[index]);
  for (const protocol::HeadRow* head : rows_by_cell(result)) {
    const auto cell = static_cast<int64_t>(rows.table.rows.size()) - rows.begin[index];
    auto& line = rows.table.rows.emplace_back();
    line.reserve(rows.table.columns.size());
    line.push_back(widgets::words_cell_of(name, static_cast<int>(index)));
    line.push_back(widgets::words_cell_of(name_of_head(cell / result.heads, cell % result.heads)));
    for (const std::string& metric : rows.metrics)
      line.push_back(cell_of_table(value_in(head, metric)));
  }
}

// Those of one model behind the others: its rows of before where its answer is the same, for of
// eight models of a thousand heads all would take longer than a frame. False where they are left
// for the next frame.
bool HeadsView::add_or_move_rows(const ViewContext& context, std::size_t index, Rows& next) {
  const auto* answer = answer_of(context, index);
  std::string made_of = std::to_string(index) + "/" + serials_of(answer) +
                        short_name(context.session(), context.session().models[index]) + "/";
  for (const std::string& metric : next.metrics) made_of += metric + "/";
  const auto same = std::ranges::find(rows_.made_of, made_of);
  const std::size_t cells = cells_of(answer->result);
  if (same == rows_.made_of.end() && made_rows_ > 0 && made_rows_ + cells > kRowsOfAFrame)
    return false;
  const auto begin = static_cast<int>(next.table.rows.size());
  next.begin.back() = begin, next.made_of.back() = std::move(made_of);
  if (same == rows_.made_of.end()) {
    add_rows(context, index, next);
    made_rows_ += cells;
  } else {
    const auto from = rows_.table.rows.begin() +
                      rows_.begin[static_cast<std::size_t>(same - rows_.made_of.begin())];
    std::move(from, from + static_cast<std::ptrdiff_t>(cells), std::back_inserter(next.table.rows));
  }
  for (int cell = 0; begin + cell < static_cast<int>(next.table.rows.size()); ++cell)
    next.model.push_back(index), next.cell.push_back(cell);
  return true;
}

const HeadsView::Rows& HeadsView::rows(const ViewContext& context) {
  const bool done = rows_version_ > 0 && (rows_whole_ || made_rows_ > 0);
  // Names of models follow from the session: they are looked up where that has changed.
  std::string seen = std::to_string(context.edit.revision()) + "/", key;
  for (std::size_t i = 0; i < context.models(); ++i) key += serials_of(answer_of(context, i));
  seen += key;
  if (done && seen == rows_seen_) return rows_;
  rows_seen_ = std::move(seen);
  key += names_key(context);
  if (done && key == rows_key_) return rows_;
  Rows next = columns(context);
  rows_whole_ = true;
  for (std::size_t i = 0; i < context.models(); ++i) {
    next.begin.push_back(-1), next.made_of.emplace_back();
    if (answer_of(context, i) && !add_or_move_rows(context, i, next)) rows_whole_ = false;
  }
  rows_ = std::move(next);
  rows_key_ = std::move(key), rows_version_ = next_serial();
  return rows_;
}

const std::vector<char>& HeadsView::found_rows(const ViewContext& context) {
  const Rows& all = rows(context);
  const std::string search = context.state<HeadsState>().search;
  return found_.get(std::to_string(rows_version_) + "/" + search, [&] {
    std::vector<char> found(all.table.rows.size(), 0);
    for (const int row : widgets::rows_in_order(all.table, {.search = search}))
      found[static_cast<std::size_t>(row)] = 1;
    return found;
  });
}

// Of a model's own answer alone: that of another one leaves it as it is.
const widgets::HeadGridSpec& HeadsView::spec_of(const ViewContext& context, std::size_t index) {
  const auto state = context.state<HeadsState>();
  const auto* answer = answer_of(context, index);
  const std::string key = serials_of(answer) + (state.sorted ? state.metric : "");
  return grids_[context.session().models[index]].spec.get(key, [&] {
    widgets::HeadGridSpec spec;
    spec.layers = static_cast<int>(answer->result.layers);
    spec.heads = static_cast<int>(answer->result.heads);
    const auto* tensor = protocol::find_tensor(answer->tensors, "thumbnails");
    spec.side = tensor && tensor->shape.size() == 4 ? static_cast<int>(tensor->shape[3]) : 0;
    if (state.sorted) spec.order = order_by(values_of(answer->result, state.metric));
    return spec;
  });
}

std::string HeadsView::captions_key(const ViewContext& context, std::size_t index) {
  const auto state = context.state<HeadsState>();
  spec_of(context, index);
  return std::to_string(grids_[context.session().models[index]].spec.version()) + "/" +
         state.metric + (state.sorted ? "/sorted" : "/");
}

const widgets::HeadCaptionWords& HeadsView::captions_of(const ViewContext& context,
                                                        std::size_t index) {
  Grid& grid = grids_[context.session().models[index]];
  return grid.captions.get(captions_key(context, index), [&] {
    const auto state = context.state<HeadsState>();
    const HeadsResult& result = answer_of(context, index)->result;
    widgets::HeadCaptionWords words;
    for (const double value : values_of(result, state.metric)) {
      const auto cell = static_cast<int64_t>(words.full.size());
      HeadCaption caption = caption_of(result, cell, value, state.sorted);
      words.full.push_back(std::move(caption.full));
      words.brief.push_back(std::move(caption.brief));
    }
    return words;
  });
}

// Captions are made where there may be room for the narrowest of them.
widgets::HeadGridFit HeadsView::fit_of(const ViewContext& context, std::size_t index, ImVec2 room,
                                       widgets::HeadCaptions most) {
  const widgets::HeadGridSpec& spec = spec_of(context, index);
  if (spec.layers * spec.heads == 0) return widgets::fit_head_grid(spec, {}, room);
  const std::string key = captions_key(context, index) + "/" + std::to_string(ImGui::GetFontSize());
  Grid& grid = grids_[context.session().models[index]];
  const float least = grid.least_caption.get(key, [&] {
    const auto state = context.state<HeadsState>();
    const HeadsResult& result = answer_of(context, index)->result;
    const double value = first_value(result, state.metric);
    return widgets::caption_width(caption_of(result, 0, value, state.sorted).brief);
  });
  if (widgets::captioned_edge(spec, room) < least) return widgets::fit_head_grid(spec, {}, room);
  const auto& widths =
      grid.widths.get(key, [&] { return widgets::caption_widths(captions_of(context, index)); });
  return widgets::fit_head_grid(spec, widths, room, most);
}

// So many models beside each other that the smallest of their pictures is as large as it can be.
HeadsView::Places HeadsView::best_places(const ViewContext& context, ImVec2 room) {
  const ImGuiStyle& style = ImGui::GetStyle();
  const float header =
      ImGui::GetTextLineHeight() + style.ItemSpacing.y * 2 + style.CellPadding.y * 2;
  const int count = static_cast<int>(context.models());
  Places best;
  for (int columns = 1; columns <= count; ++columns) {
    const auto lines = static_cast<float>((count + columns - 1) / columns);
    const ImVec2 each{room.x / static_cast<float>(columns) - ImGui::GetFontSize() * 0.6F,
                      room.y / lines - header};
    Places found{columns, each, std::numeric_limits<float>::max()};
    for (const bool again : {false, true}) {  // the captions that all have room for are known then
      for (std::size_t i = 0; i < context.models(); ++i) {
        if (!answer_of(context, i)) continue;
        const widgets::HeadGridFit fit = fit_of(context, i, each, found.captions);
        found.captions = std::min(found.captions, fit.captions);
        found.pixels = again ? std::min(found.pixels, fit.pixels) : found.pixels;
      }
    }
    if (found.pixels > best.pixels) best = found;
  }
  return best;
}

// What the pictures' places follow from, beside the room.
std::string HeadsView::places_key(const ViewContext& context, ImVec2 room) {
  std::string key = std::to_string(room.x) + "x" + std::to_string(room.y) + "/" +
                    std::to_string(ImGui::GetFontSize()) + "/";
  for (std::size_t i = 0; i < context.models(); ++i) {
    key += answer_of(context, i) ? captions_key(context, i) + "/" : "/";
  }
  return key;
}

widgets::PlotSpec HeadsView::scatter_of(const ViewContext& context) {
  const auto state = context.state<HeadsState>();
  widgets::PlotSpec plot{.id = "heads_" + state.up + "_over_" + state.across,
                         .title = "Heads: " + state.up + " over " + state.across};
  plot.x.label = state.across, plot.y.label = state.up;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = answer_of(context, i);
    widgets::Series series{.label = short_name(context.session(), context.session().models[i]),
                           .kind = widgets::SeriesKind::scatter,
                           .color = static_cast<int>(i)};
    if (answer) {
      series.x = values_of(answer->result, state.across);
      series.y = values_of(answer->result, state.up);
      for (std::size_t cell = 0; cell < series.x.size(); ++cell)
        series.names.push_back(name_of_head(static_cast<int64_t>(cell) / answer->result.heads,
                                            static_cast<int64_t>(cell) % answer->result.heads));
    }
    series.in_legend = answer != nullptr;
    plot.series.push_back(std::move(series));
  }
  if (const auto* answer = first_answer(context))
    for (const std::string& key : {state.across, state.up})
      if (const MetricInfo* metric = metric_of(answer->result, key))
        plot.notes.push_back(metric->title + " = " + metric->formula);
  return plot;
}

std::vector<Saved> HeadsView::saved(ViewContext& context) {
  std::vector<Saved> all;
  const ModelNames names = names_of(context.session());
  const auto state = context.state<HeadsState>();
  const auto answers = shown_answers(context, kHeads);
  for (const auto* answer : answers.list) {
    Output output{.result = protocol::to_json_form(answer->result),
                  .provenance = provenance_of(answer->result)};
    output.tables = {heads_table(answer->result, output.result["rows"])};
    output.figures = {metric_map_figure(answer->result, state.metric, names)};
    if (const auto* tensor = protocol::find_tensor(answer->tensors, "thumbnails")) {
      output.grids = {head_grid_figure(answer->result, grid_of(*tensor), state.metric, names)};
      output.tensors = {*tensor};
    }
    all.push_back({names.file_name(answer->result.model), std::move(output),
                   command_of<protocol::HeadsRequest>({answer->asked})});
  }
  if (!state.scatter || answers.empty()) return all;
  Output scatter;
  for (const Saved& one : all) {
    scatter.result[one.folder] = one.output.result;
    for (const nlohmann::json& made : one.output.provenance) scatter.provenance.push_back(made);
  }
  scatter.figures = {scatter_of(context)};
  all.push_back(
      {"scatter", std::move(scatter), command_of<protocol::HeadsRequest>(answers.asked())});
  return all;
}

// --- pointing and choosing --------------------------------------------------------------------

HeadsView::Place HeadsView::place_of_row(const ViewContext& context, int row) {
  const Rows& all = rows(context);
  const auto at = static_cast<std::size_t>(row);
  return row < 0 || at >= all.cell.size() ? Place{} : Place{all.model[at], all.cell[at]};
}

int HeadsView::row_of(const ViewContext& context, const widgets::Hover& marks) {
  if (!marks.layer || !marks.head) return -1;
  const auto model = static_cast<std::size_t>(
      std::max<int64_t>(0, marks.model.value_or(context.session().selection.model)));
  const Rows& all = rows(context);
  if (model >= all.begin.size() || all.begin[model] < 0) return -1;
  const int cell = cell_of(answer_of(context, model)->result, *marks.layer, *marks.head);
  return cell < 0 ? -1 : all.begin[model] + cell;
}

void HeadsView::point_at_head(ViewContext& context, Place place) {
  if (place.cell < 0) return;
  const HeadsResult& result = answer_of(context, place.model)->result;
  widgets::Hover hover;
  hover.model = static_cast<int64_t>(place.model);
  hover.layer = place.cell / result.heads, hover.head = place.cell % result.heads;
  context.point_at(hover);
}

void HeadsView::select_cell(ViewContext& context, Place place) {
  const HeadsResult& result = answer_of(context, place.model)->result;
  const ChosenHead head = chosen_head(context, place.model, result, place.cell);
  select_head(context, static_cast<int64_t>(place.model), head.layer, head.head);
}

void HeadsView::take(ViewContext& context, Place place) {
  if (place.cell < 0) return;
  if (!ImGui::GetIO().KeyCtrl) return select_cell(context, place);
  const HeadsResult& result = answer_of(context, place.model)->result;
  const ChosenHead head = chosen_head(context, place.model, result, place.cell);
  auto state = context.state<HeadsState>();
  if (is_chosen(state, head))
    std::erase(state.chosen, head);
  else
    state.chosen.push_back(head);
  context.set_state("Choose heads", state);
}

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
      ImGui::TextColored(widgets::palette().quiet, "%s", metric.key.c_str());
      ImGui::TableNextColumn();
      ImGui::TextUnformatted(widgets::text_of(cell_of_table(value)).c_str());
    }
    ImGui::EndTable();
  }
  ImGui::EndTooltip();
}

// --- drawing ----------------------------------------------------------------------------------

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
  const auto several = [&](std::size_t i) {
    const auto* answer = answer_of(context, i);
    return answer && !answer->result.stack.empty();
  };
  bool stacks = false;
  for (std::size_t i = 0; i < context.models(); ++i) stacks = stacks || several(i);
  if (!stacks) return;
  std::string stack = context.session().selection.stack;
  if (stack.empty()) stack = "dec";
  const std::vector<std::string> names{"dec", "enc", "cross"};
  next_control(choice_width(names));
  if (draw_choice("##stack", stack, names))
    context.edit.apply("Show stack " + stack, [&](Session& s) { s.selection.stack = stack; });
  tooltip("Heads of the decoder, of the encoder, or of the decoder's attention to the encoder");
}

void HeadsView::draw_controls(ViewContext& context) {
  auto state = context.state<HeadsState>();
  const auto* answer = first_answer(context);
  const auto keys = answer ? metric_keys(answer->result) : std::vector<std::string>{state.metric};
  bool changed = draw_choice("##metric", state.metric, keys);
  if (answer)
    if (const MetricInfo* metric = metric_of(answer->result, state.metric))
      tooltip(described(*metric));
  next_control(checkbox_width("Sort"));
  changed |= ImGui::Checkbox("Sort", &state.sorted);
  tooltip("Largest first; otherwise layers down, heads across");
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

// The mean of every metric over the chosen heads, each counting once.
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
      for (const auto& [metric, value] : rows[static_cast<std::size_t>(cell)]->values)
        if (!std::isnan(value.mean)) sums[metric].first += value.mean, ++sums[metric].second;
    }
  }
  if (heads == 0) return;
  std::string words = "Mean of " + std::to_string(heads) + (heads == 1 ? " head:" : " heads:");
  for (const auto& [metric, sum] : sums)
    words += "  " + metric + " " + widgets::short_number(sum.first / sum.second);
  if (ImGui::SmallButton("Clear")) {
    state.chosen.clear();
    context.set_state("Choose no heads", state);
  }
  ImGui::SameLine();
  ImGui::TextWrapped("%s", words.c_str());
}

void HeadsView::draw_model_line(ViewContext& context, std::size_t index) {
  draw_model_name(context.session(), index);
  draw_question(context, context.of(kHeads, index), "");
  const auto* answer = answer_of(context, index);
  if (!answer) return;
  ImGui::SameLine();
  ImGui::TextColored(widgets::palette().quiet, "sinks %s %%",
                     widgets::short_number(100 * answer->result.sink_rate).c_str());
  tooltip("Sink rate: share of heads whose weight on key 0 is above 0.3");
  const WhatRan ran = what_ran(answer->result.provenance);
  ImGui::SameLine();
  if (!ran.fell_back && ImGui::CalcTextSize(ran.words.c_str()).x > ImGui::GetContentRegionAvail().x)
    return ImGui::NewLine();
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
  if (draw.fit.captions != widgets::HeadCaptions::none)
    draw.captions = &captions_of(context, index);
  const int begin = context.state<HeadsState>().search.empty() ? -1 : rows(context).begin[index];
  if (begin >= 0)
    draw.found = std::span<const char>(found_rows(context))
                     .subspan(static_cast<std::size_t>(begin), cells_of(answer->result));
  const Selection& at = context.session().selection;
  if (at.model == static_cast<int64_t>(index))
    draw.selected = cell_of(answer->result, at.layer, at.head);
  if (const Place hovered = place_of_row(context, row_of(context, context.hover()));
      hovered.model == index)
    draw.hovered = hovered.cell;
  std::vector<char> chosen(cells_of(answer->result), 0);
  for (const ChosenHead& head : context.state<HeadsState>().chosen)
    if (const int cell = cell_of(answer->result, head.layer, head.head);
        cell >= 0 && head.model == context.session().models[index])
      chosen[static_cast<std::size_t>(cell)] = 1;
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
  if (drawn.hovered < 0) return;
  draw_head_tooltip(context, *answer, drawn.hovered);
  // The menu is about the head that it was asked for at.
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Right)) select_cell(context, {index, drawn.hovered});
  point_at_head(context, {index, drawn.hovered});
  if (drawn.clicked >= 0) take(context, {index, drawn.clicked});
}

void HeadsView::draw_pictures(ViewContext& context) {
  // Of a closed model nothing stays on the graphics card.
  std::erase_if(grids_, [&](const auto& grid) {
    return std::ranges::find(context.session().models, grid.first) ==
           context.session().models.end();
  });
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
  if (state.sorted && column != all.metrics.end())
    wanted.column = static_cast<int>(column - all.metrics.begin()) + kNameColumns;
  if (!(wanted == shown_)) table_.arrange(wanted);
  shown_ = wanted;
  const Selection& at = context.session().selection;
  widgets::TableDraw options;
  options.version = rows_version_;
  options.hovered = row_of(context, context.hover());
  const int selected = row_of(context, marks_of(at));
  options.selected = [&](int row) {
    const Place place = place_of_row(context, row);
    return row == selected ||
           is_chosen(state, chosen_head(context, place.model,
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
  // Names and the smallest first are the table's own; pictures follow a metric.
  const bool by_metric = now.column >= kNameColumns && now.descending;
  if (by_metric) state.metric = all.metrics[static_cast<std::size_t>(now.column - kNameColumns)];
  if (now.column != shown_.column || now.descending != shown_.descending) state.sorted = by_metric;
  shown_ = now;
  if (!by_metric) shown_.column = -1, shown_.descending = true;
  context.set_state("Arrange heads", state, "arrange heads");
}

void HeadsView::draw_scatter(ViewContext& context) {
  auto state = context.state<HeadsState>();
  const std::vector<std::string>& keys = rows(context).metrics;
  bool changed = draw_choice("up", state.up, keys);
  ImGui::SameLine();
  changed |= draw_choice("across", state.across, keys);
  if (changed) context.set_state("Scatter other metrics", state);
  const widgets::PlotSpec& plot =
      scatter_.get(std::to_string(rows_version_) + "/" + state.up + "/" + state.across,
                   [&] { return scatter_of(context); });
  widgets::PlotDraw options;
  options.version = scatter_.version();
  options.notes = false;
  const auto ring = [&](int row, const ImVec4& color) {
    const Place place = place_of_row(context, row);
    if (place.cell < 0) return;
    const widgets::Series& series = plot.series[place.model];
    const auto at = static_cast<std::size_t>(place.cell);
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

// One pane fills the room; several share its width or its height.
void HeadsView::draw_panes(ViewContext& context, ImVec2 room) {
  using Draw = void (HeadsView::*)(ViewContext&);
  struct Pane {
    const char* name;
    Draw draw;
    float part;  // of the room, beside the others
  };
  const auto state = context.state<HeadsState>();
  std::vector<Pane> panes;
  if (state.pictures) panes.push_back({"pictures", &HeadsView::draw_pictures, 1.6F});
  if (state.table) panes.push_back({"table", &HeadsView::draw_table, 1});
  if (state.scatter) panes.push_back({"scatter", &HeadsView::draw_scatter, 1.2F});
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
    const ImVec2 size = beside ? ImVec2(whole.x * part, room.y) : ImVec2(room.x, whole.y * part);
    if (ImGui::BeginChild(pane.name, size)) (this->*pane.draw)(context);
    ImGui::EndChild();
  }
}

std::vector<std::string> HeadsView::notes_of(const ViewContext& context) {
  const auto* answer = first_answer(context);
  if (!answer) return {};
  std::vector<std::string> notes;
  if (const MetricInfo* metric = metric_of(answer->result, context.state<HeadsState>().metric))
    notes.push_back(metric->title + " = " + metric->formula);
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* own = answer_of(context, i);
    if (!own || own->result.stack.empty()) continue;
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
  if (context.models() == 0)
    return widgets::draw_empty("Every head of the open models will be here. Tick a model.");
  draw_chosen(context);
  const std::vector<std::string> notes = notes_of(context);
  ImVec2 room = ImGui::GetContentRegionAvail();
  room.y = std::max(120.0F, room.y - widgets::notes_height(notes, room.x) - 6);
  if (ImGui::BeginChild("panes", room)) draw_panes(context, room);
  ImGui::EndChild();
  if (!rows_whole_) context.window.moving = true;
  widgets::draw_notes(notes);
}

}  // namespace phasescope::app
