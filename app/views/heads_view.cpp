#include "app/views/heads_view.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <tuple>

#include "app/figures/figures.h"
#include "app/outputs/result_tables.h"
#include "app/views/head_values.h"
#include "widgets/plot_draw.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

// Cells of a thumbnail's edge, as asked for: fewer of a model whose heads are so many that none of
// them can be large.
constexpr std::int64_t kThumbnailSide = 64, kSideOfMany = 32, kManyHeads = 256;
// Rows of the table that are made in one frame, but for the first model's.
constexpr std::size_t kRowsOfAFrame = 1024;
// In font sizes: smaller pictures are made larger, and scrolled to.
constexpr float kLeastPicture = 2;

using protocol::HeadsResult;
using protocol::Interval;
using protocol::MetricInfo;

// That of the first head.
double first_value(const HeadsResult& result, const std::string& metric) {
  const auto first = std::ranges::find_if(
      result.rows, [](const protocol::HeadRow& row) { return row.layer == 0 && row.head == 0; });
  const Interval* value = first == result.rows.end() ? nullptr : value_in(&*first, metric);
  return value ? value->mean : std::nan("");
}

// Largest first, or smallest; heads without the metric last.
std::vector<int> order_by(const std::vector<double>& values, bool ascending) {
  std::vector<int> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  const auto rank = [&](int cell) {
    const double value = values[static_cast<std::size_t>(cell)];
    if (std::isnan(value)) return -std::numeric_limits<double>::infinity();
    return ascending ? -value : value;
  };
  std::ranges::stable_sort(order, [&](int a, int b) { return rank(a) > rank(b); });
  return order;
}

// What stands under a head's picture, whole and where there is less room: sorted ones are told by
// their names, the others stand at their place.
struct HeadCaption {
  std::string full, brief;
};
HeadCaption caption_of(const HeadsResult& result, std::int64_t cell, double value, bool sorted) {
  const std::string name = name_of_head(cell / result.heads, cell % result.heads);
  if (std::isnan(value)) return {name, name};
  const std::string number = widgets::short_number(value);
  return {name + "  " + number, sorted ? name : number};
}

}  // namespace

widgets::MapSpec look_of_pictures() { return {.value_label = "weight"}; }

std::string HeadsView::help_text() const {
  return "Every head of every open model. Pictures: layers down, heads across, queries from top to "
         "bottom, keys from left to right; white to blue (on a dark ground dark to white) is "
         "weight 0 to 1, the same for all; a "
         "cell of a thumbnail shows its largest weight; the masked triangle is grey. Table: every "
         "metric, sorted by a click on its title, searched by name or by a condition as "
         "entropy>2. Scatter: one metric over another. Click to open a head in the other views, "
         "Ctrl and click to choose several for their mean (Alt+Shift+H: the selected one).";
}

namespace {

// Into the heads whose mean is said, or out of them.
void choose_or_leave(ViewContext& context, const ChosenHead& head) {
  auto state = context.state<HeadsState>();
  if (state.is_chosen(head)) {
    std::erase(state.chosen, head);
  } else {
    state.chosen.push_back(head);
  }
  context.set_state("Choose heads", state);
}

// What Ctrl and a click do, for who has no pointer.
void choose_selected(ViewContext& context) {
  const Selection& at = context.session().selection;
  const std::string model = selected_model(context.session());
  if (model.empty() || at.head < 0) return context.window.say("Select one head first");
  choose_or_leave(context, {model, at.layer, at.head});
}

}  // namespace

void HeadsView::add_commands(std::vector<Command>& list) const {
  list.push_back({"heads.choose", "Heads: the selected one into the mean of several, or out of it",
                  "As Ctrl and a click", ImGuiMod_Alt | ImGuiMod_Shift | ImGuiKey_H,
                  choose_selected});
  list.push_back({"heads.sort", "Heads: sort by the metric, or not", "",
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
       {Pane{"pictures", "Heads: pictures, or none", &HeadsState::pictures, ImGuiKey_P},
        Pane{"table", "Heads: table of all metrics, or none", &HeadsState::table, ImGuiKey_T},
        Pane{"scatter", "Heads: scatter of two metrics, or none", &HeadsState::scatter,
             ImGuiKey_C}}) {
    list.push_back({std::string("heads.") + pane.id, pane.title, "",
                    ImGuiMod_Alt | ImGuiMod_Shift | pane.key,
                    [shown = pane.shown](ViewContext& context) {
                      auto state = context.state<HeadsState>();
                      state.*shown = !(state.*shown);
                      context.set_state("Arrange heads", state);
                    }});
  }
}

// One for each model on show.
std::string HeadsView::command_line(const ViewContext& context) const {
  const auto state = context.state<HeadsState>();
  std::string commands;
  for (const Asked& asked : asked_of_all(context, kHeads)) {
    commands += (commands.empty() ? "" : " && ") + command_of<protocol::HeadsRequest>({asked});
    if (state.sorted) commands += " --sort " + state.metric;
    if (state.sorted && state.ascending) commands += " --ascending";
  }
  return commands;
}

void HeadsView::ask(ViewContext& context) {
  const nlohmann::json options = context.state<HeadsState>().options;
  const std::string stack = context.session().selection.stack;
  ask_of_all(context, kHeads, [&](const std::string& model, const TextInput& text) {
    auto request = with_choices(protocol::HeadsRequest{.model = model}, options);
    const auto* report = context.info(model);
    const bool many = report && report->model.layers * report->model.heads > kManyHeads;
    request.thumbnails = many ? kSideOfMany : kThumbnailSide;
    if (context.has_stacks(model)) request.stack = stack;
    set_text(request.reading, text);
    return request;
  });
}

const HeadsView::HeadsAnswer* HeadsView::answer_of(const ViewContext& context,
                                                   std::size_t index) const {
  const auto& question = context.of(kHeads, index);
  if (question.answers_now()) return question.answer();
  const auto shown = shown_answers(context, kHeads);  // older ones only where all are old
  return std::ranges::find(shown.list, question.answer()) == shown.list.end() ? nullptr
                                                                              : question.answer();
}

const HeadsView::HeadsAnswer* HeadsView::first_answer(const ViewContext& context) {
  const auto answers = shown_answers(context, kHeads);
  return answers.empty() ? nullptr : answers.list.front();
}

// As the first answer that knows it has it.
std::string HeadsView::heading_in(const ViewContext& context, const std::string& metric) const {
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (const auto* answer = answer_of(context, i); answer && metric_of(answer->result, metric)) {
      return heading_of(answer->result, metric);
    }
  }
  return title_of_key(metric);
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
      rows.table.columns.push_back(
          {.title = heading_of(metric), .help = described(metric), .key = metric.key});
    }
  }
  return rows;
}

// Those of one model behind the others.
void HeadsView::add_rows(const ViewContext& context, std::size_t index, Rows& rows) const {
  const HeadsResult& result = answer_of(context, index)->result;
  const std::string name = short_name(context.session(), context.session().models[index]);
  for (const protocol::HeadRow* head : rows_by_cell(result)) {
    const auto cell = static_cast<std::int64_t>(rows.table.rows.size()) - rows.begin[index];
    auto& line = rows.table.rows.emplace_back();
    line.reserve(rows.table.columns.size());
    line.push_back(widgets::words_cell_of(name, static_cast<int>(index)));
    line.push_back(widgets::words_cell_of(name_of_head(cell / result.heads, cell % result.heads)));
    for (const std::string& metric : rows.metrics) {
      line.push_back(cell_of_table(value_in(head, metric)));
    }
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
  if (same == rows_.made_of.end() && made_rows_ > 0 && made_rows_ + cells > kRowsOfAFrame) {
    return false;
  }
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
  for (int cell = 0; begin + cell < static_cast<int>(next.table.rows.size()); ++cell) {
    next.model.push_back(index), next.cell.push_back(cell);
  }
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
    for (const int row : widgets::rows_in_order(all.table, {.search = search})) {
      found[static_cast<std::size_t>(row)] = 1;
    }
    return found;
  });
}

// What the search leaves out of table and scatter; empty where that is nothing.
std::string HeadsView::words_left_out(const ViewContext& context) {
  const std::vector<char>& found = found_rows(context);
  const auto left_out = std::ranges::count(found, 0);
  if (left_out == 0) return "";
  return "\"" + context.state<HeadsState>().search + "\" leaves out " + std::to_string(left_out) +
         " of " + std::to_string(found.size()) + " heads";
}

// The grid of a model's own answer: another model's answer leaves it as it is.
const widgets::HeadGridSpec& HeadsView::spec_of(const ViewContext& context, std::size_t index) {
  const auto state = context.state<HeadsState>();
  const auto* answer = answer_of(context, index);
  const std::string key =
      serials_of(answer) + (state.sorted ? state.metric + (state.ascending ? " up" : "") : "");
  return grids_[context.session().models[index]].spec.get(key, [&] {
    widgets::HeadGridSpec spec;
    spec.look = look_of_pictures();
    spec.layers = static_cast<int>(answer->result.layers);
    spec.heads = static_cast<int>(answer->result.heads);
    const auto* tensor = protocol::find_tensor(answer->tensors, "thumbnails");
    spec.side = tensor && tensor->shape.size() == 4 ? static_cast<int>(tensor->shape[3]) : 0;
    if (state.sorted) {
      spec.order = order_by(values_of(answer->result, state.metric), state.ascending);
    }
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
      const auto cell = static_cast<std::int64_t>(words.full.size());
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

// Puts as many models beside each other as make the smallest of their pictures largest.
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
  const Places scrolled = scrolled_places(context, room);
  const bool seen = best.pixels >= kLeastPicture * ImGui::GetFontSize();
  return !seen && scrolled.pixels > best.pixels ? scrolled : best;
}

// Larger pictures than the room has height for: as many models beside each other as leave every
// picture enough to be seen.
HeadsView::Places HeadsView::scrolled_places(const ViewContext& context, ImVec2 room) {
  const float least = kLeastPicture * ImGui::GetFontSize(), name = 10 * ImGui::GetFontSize();
  std::int64_t heads = 1, layers = 1;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = answer_of(context, i);
    if (!answer) continue;
    heads = std::max(heads, answer->result.heads), layers = std::max(layers, answer->result.layers);
  }
  const float widest = std::max(name, static_cast<float>(heads) * least);
  const int columns =
      std::clamp(static_cast<int>(room.x / widest), 1, static_cast<int>(context.models()));
  const float wide = room.x / static_cast<float>(columns) - ImGui::GetFontSize() * 0.6F;
  Places places{columns, {wide, wide * static_cast<float>(layers) / static_cast<float>(heads)}};
  places.pixels = std::numeric_limits<float>::max();
  places.captions = widgets::HeadCaptions::none;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (answer_of(context, i)) {
      places.pixels =
          std::min(places.pixels, fit_of(context, i, places.room, places.captions).pixels);
    }
  }
  return places;
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

// Of the heads that the search finds, as the table: the others keep their places, without a number.
widgets::PlotSpec HeadsView::scatter_of(const ViewContext& context) {
  const auto state = context.state<HeadsState>();
  const std::vector<char>& found = found_rows(context);
  widgets::PlotSpec plot{.id = "heads_" + state.up + "_over_" + state.across,
                         .title = "Heads: " + heading_in(context, state.up) + " over " +
                                  heading_in(context, state.across)};
  plot.x.label = heading_in(context, state.across), plot.y.label = heading_in(context, state.up);
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = answer_of(context, i);
    widgets::Series series{.label = short_name(context.session(), context.session().models[i]),
                           .kind = widgets::SeriesKind::scatter,
                           .color = names_of(context.session()).color(context.session().models[i])};
    if (answer) {
      series.x = values_of(answer->result, state.across);
      series.y = values_of(answer->result, state.up);
      for (std::size_t cell = 0; cell < series.x.size(); ++cell) {
        series.names.push_back(
            name_of_head(static_cast<std::int64_t>(cell) / answer->result.heads,
                         static_cast<std::int64_t>(cell) % answer->result.heads));
      }
      const int begin = rows_.begin[i];  // -1 where its rows are left for the next frame
      for (std::size_t cell = 0; begin >= 0 && cell < series.x.size(); ++cell) {
        if (!found[static_cast<std::size_t>(begin) + cell]) {
          series.x[cell] = series.y[cell] = std::nan("");
        }
      }
    }
    series.in_legend = answer != nullptr;
    plot.series.push_back(std::move(series));
  }
  if (const auto* answer = first_answer(context)) {
    for (const std::string& key : {state.across, state.up}) {
      if (const MetricInfo* metric = metric_of(answer->result, key)) {
        plot.notes.push_back(metric->title + " = " + metric->formula);
      }
    }
  }
  if (std::string words = words_left_out(context); !words.empty()) {
    plot.notes.push_back(std::move(words));
  }
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

ChosenHead HeadsView::chosen_head(const ViewContext& context, std::size_t model,
                                  const HeadsResult& result, int cell) {
  return {context.session().models[model], cell / result.heads, cell % result.heads};
}

HeadsView::Place HeadsView::place_of_row(const ViewContext& context, int row) {
  const Rows& all = rows(context);
  const auto at = static_cast<std::size_t>(row);
  return row < 0 || at >= all.cell.size() ? Place{} : Place{all.model[at], all.cell[at]};
}

int HeadsView::row_of(const ViewContext& context, const widgets::Hover& marks) {
  if (!marks.layer || !marks.head) return -1;
  const auto model = static_cast<std::size_t>(
      std::max<std::int64_t>(0, marks.model.value_or(context.session().selection.model)));
  const Rows& all = rows(context);
  if (model >= all.begin.size() || all.begin[model] < 0) return -1;
  const int cell = cell_of(answer_of(context, model)->result, *marks.layer, *marks.head);
  return cell < 0 ? -1 : all.begin[model] + cell;
}

void HeadsView::point_at_head(ViewContext& context, Place place) {
  if (place.cell < 0) return;
  const HeadsResult& result = answer_of(context, place.model)->result;
  widgets::Hover hover;
  hover.model = static_cast<std::int64_t>(place.model);
  hover.layer = place.cell / result.heads, hover.head = place.cell % result.heads;
  context.point_at(hover);
}

void HeadsView::select_cell(ViewContext& context, Place place) {
  const HeadsResult& result = answer_of(context, place.model)->result;
  const ChosenHead head = chosen_head(context, place.model, result, place.cell);
  select_head(context, static_cast<std::int64_t>(place.model), head.layer, head.head);
}

void HeadsView::take(ViewContext& context, Place place) {
  if (place.cell < 0) return;
  if (!ImGui::GetIO().KeyCtrl) return select_cell(context, place);
  const HeadsResult& result = answer_of(context, place.model)->result;
  const ChosenHead head = chosen_head(context, place.model, result, place.cell);
  choose_or_leave(context, head);
}

}  // namespace phasescope::app
