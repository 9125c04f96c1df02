#include "app/views/shift_view.h"

#include <algorithm>
#include <map>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/figures/shift_words.h"
#include "app/outputs/result_tables.h"
#include "app/views/controls_room.h"
#include "app/views/kept_tables.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::ShiftResult;
using protocol::ShiftRow;

// The most columns of one table of Dear ImGui.
constexpr int kMostColumns = 512;

ShiftResult merged(const ShownAnswers<ShiftResult>& answers) {
  ShiftResult all;
  for (const auto* answer : answers.list) {
    const ShiftResult& one = answer->result;
    all.rows.insert(all.rows.end(), one.rows.begin(), one.rows.end());
    all.provenance.insert(all.provenance.end(), one.provenance.begin(), one.provenance.end());
    all.expected.insert(all.expected.end(), one.expected.begin(), one.expected.end());
    all.formula = one.formula;
  }
  return all;
}

// One line of the paper's table: a model, a method and a shift, with a value for each layer.
struct Line {
  std::string model, method, dtype;
  std::int64_t by = 0;
  std::map<std::int64_t, const ShiftRow*> layers;
  std::string verdict;  // the worst of its layers'
};

const std::vector<std::string>& shift_figure_names() {
  static const std::vector<std::string> names{"attention by layer", "positions by layer",
                                              "against the shift"};
  return names;
}

// The id of the figure that a choice is of.
std::string id_of(const std::string& figure) {
  if (figure == "positions by layer") return "shift_positions";
  return figure == "against the shift" ? "shift_by" : "shift";
}

// "published: rope tokens" of a label that names paper, table and setting too: those are in the
// notes, and what was done has the words of the measured rows.
std::string without_source(const std::string& label) {
  const std::size_t open = label.find(" (");
  if (open == std::string::npos) return label;
  const bool tokens = label.find("[BOS]", open) != std::string::npos;
  return label.substr(0, open) + (tokens ? " tokens" : " ids");
}

// "rope ids" of "rope ids by 3", and "rope ids: exactly 0" of "rope ids by 3: exactly 0": which
// shift is shown stands above a figure of one.
std::string without_shift(std::string label, std::int64_t by, bool of_all) {
  const std::string words = " by " + std::to_string(by);
  const std::size_t at = label.rfind(words), end = at + words.size();
  const bool found = at != std::string::npos && (end == label.size() || label[end] == ':');
  return of_all || !found ? label : label.erase(at, words.size());
}

// What a model's encoding declares of shifted ids, and why.
std::string declared(const ShiftResult& result, const std::string& model) {
  for (const protocol::ShiftExpectation& one : result.expected) {
    if (one.model == model) return shift_words(one.expected) + " under shifted ids: " + one.why;
  }
  return "";
}

std::vector<Line> lines_of(const ShiftResult& result) {
  std::vector<Line> lines;
  for (const ShiftRow& row : result.rows) {
    auto found = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return line.model == row.model && line.method == row.method && line.by == row.by &&
             line.dtype == row.dtype;
    });
    if (found == lines.end()) {
      found = lines.insert(lines.end(), {row.model, row.method, row.dtype, row.by, {}});
    }
    found->layers[row.layer] = &row;
    if (found->verdict != "failure" && !row.verdict.empty()) found->verdict = row.verdict;
  }
  return lines;
}

widgets::TableCell cell_of_layer(const ShiftRow& row) {
  auto cell = widgets::number_cell_of(row.attention_difference);
  cell.help = with_ends(row.attention_difference, row.attention_low, row.attention_high) +
              ", n = " + std::to_string(row.n) + " " + row.unit;
  if (row.position_difference) {
    cell.help += "\nPE dot products differ by " +
                 with_ends(*row.position_difference, row.position_low, row.position_high) + " %";
  }
  return cell;
}

// The paper's table: a line for each model, method, shift and dtype, the layers across.
widgets::TableSpec table_of_lines(const ShiftResult& result, const ModelNames& names) {
  widgets::TableSpec table{.id = "shift", .frozen = 2};
  table.columns = {
      {.title = "model", .numbers = false},
      {.title = "shifted by"},
      {.title = "what", .help = "position ids, or tokens before the text", .numbers = false},
      {.title = "in", .numbers = false},
      {.title = "verdict", .numbers = false}};
  std::int64_t layers = 0;
  for (const ShiftRow& row : result.rows) layers = std::max(layers, row.layer + 1);
  layers = std::min<std::int64_t>(layers, kMostColumns - 6);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    table.columns.push_back({"L" + std::to_string(layer), "attention difference (1e-2)"});
  }
  table.columns.push_back({"logits", "largest difference"});
  for (const Line& line : lines_of(result)) {
    auto model = widgets::words_cell_of(names.short_name(line.model), names.color(line.model));
    auto verdict = widgets::words_cell_of(line.verdict);
    model.help = verdict.help = declared(result, line.model);
    using Tone = widgets::TableCell::Tone;
    verdict.tone = line.verdict == "failure" ? Tone::bad : Tone::quiet;
    auto& row = table.rows.emplace_back(std::vector<widgets::TableCell>{
        std::move(model), widgets::number_cell_of(static_cast<double>(line.by)),
        widgets::words_cell_of(line.method), widgets::words_cell_of(line.dtype),
        std::move(verdict)});
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto found = line.layers.find(layer);
      row.push_back(found == line.layers.end() ? widgets::TableCell{}
                                               : cell_of_layer(*found->second));
    }
    row.push_back(widgets::number_cell_of(line.layers.begin()->second->logits_difference));
  }
  return table;
}

}  // namespace

std::string ShiftView::help_text() const {
  return "\"ids\": position ids start at k; a relative encoding must not notice. \"tokens\": k "
         "[BOS] "
         "tokens stand before the text; attention over the original tokens may change. The "
         "attention "
         "difference is in units of 0.01 (TAPE, Table 8): mean over heads and queries of the "
         "summed "
         "absolute change of the weights. The verdict is of shifted ids, from float64: rounding, "
         "failure (the formula says that nothing changes and something does) or as declared.";
}

void ShiftView::ask(ViewContext& context) {
  const auto options = context.state<ShiftState>().options;
  ask_of_all(context, kShift, [&](const std::string& model, const TextInput& text) {
    auto request = with_choices(protocol::ShiftRequest{.models = {model}}, options);
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
  output.figures = shift_figures(result, names_of(context.session()));
  return {{"", std::move(output), command_of<protocol::ShiftRequest>(answers.asked())}};
}

// A click selects the model of a row.
void ShiftView::draw_table(ViewContext& context, const widgets::TableSpec& spec) {
  widgets::TableDraw options;
  options.version = table_spec_.version();
  options.hint = "Search, or a condition: L3>0.1";
  const ModelNames names = names_of(context.session());
  const auto model_of = [&](int row) {
    const std::string& name = spec.rows[static_cast<std::size_t>(row)][0].words;
    for (std::size_t i = 0; i < context.models(); ++i) {
      if (names.short_name(context.session().models[i]) == name) {
        return static_cast<std::int64_t>(i);
      }
    }
    return std::int64_t{-1};
  };
  options.selected = [&](int row) { return model_of(row) == context.session().selection.model; };
  options.menu = [&](int) { draw_menu_items(context); };
  const auto drawn = draw_kept_table(context, id(), table_, spec, options);
  if (drawn.clicked < 0) return;
  if (const std::int64_t model = model_of(drawn.clicked); model >= 0) select_model(context, model);
}

void ShiftView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<ShiftState>();
  bool changed = draw_choice("##figure", state.figure, shift_figure_names());
  if (state.figure != shift_figure_names().back()) {
    const auto request = with_choices(protocol::ShiftRequest{}, state.options);
    std::vector<std::string> words;
    for (std::int64_t by : request.by) words.push_back("by " + std::to_string(by));
    std::string shown = "by " + std::to_string(state.shown);
    ImGui::SameLine();
    if (draw_choice("##by", shown, words)) {
      state.shown =
          request.by[static_cast<std::size_t>(std::ranges::find(words, shown) - words.begin())];
      changed = true;
    }
    tooltip("The shift of the figure; the table has all");
  }
  next_control(6 * ImGui::GetFontSize());
  changed |= form_.draw<protocol::ShiftRequest>(state.options, ShiftState{}.options,
                                                {"device", "threads"});
  if (changed) context.set_state("Change the shifts", state);
  draw_tools(context);
}

// One figure, of one shift where it is by layer, a model's colour for both of its methods.
widgets::PlotSpec ShiftView::plot_of(const ViewContext& context, ShiftResult result) const {
  const auto state = context.state<ShiftState>();
  const std::string id = id_of(state.figure);
  if (id != "shift_by") {
    std::erase_if(result.rows, [&](const ShiftRow& row) { return row.by != state.shown; });
  }
  for (widgets::PlotSpec& plot : shift_figures(result, names_of(context.session()))) {
    if (plot.id == id) {
      for (widgets::Series& series : plot.series) {
        series.label = series.quiet ? without_source(series.label)
                                    : without_shift(series.label, state.shown, id == "shift_by");
      }
      return std::move(plot);
    }
  }
  return {};
}

void ShiftView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0) {
    return widgets::draw_empty("Tick models to see what moving a text does to them.");
  }
  draw_questions(context, kShift);
  const auto answers = shown_answers(context, kShift);
  if (!answers.empty()) draw_results(context, answers);
}

void ShiftView::draw_results(ViewContext& context, const ShownAnswers<ShiftResult>& answers) {
  const std::string key = answers.key(context);
  const ShiftResult& result = result_.get(key, [&] { return merged(answers); });
  const auto state = context.state<ShiftState>();
  const auto& plots = plots_.get(key + state.figure + std::to_string(state.shown), [&] {
    std::vector<widgets::PlotSpec> made{plot_of(context, result)};
    std::erase_if(made, [](const widgets::PlotSpec& plot) { return plot.series.empty(); });
    return made;
  });
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const auto& table =
      table_spec_.get(key, [&] { return table_of_lines(result, names_of(context.session())); });
  const auto lines = static_cast<float>(table.rows.size());
  // The table has its rows, but no more than half of the room.
  const float rows = std::clamp(line * (lines * 1.2F + 4.5F), line * 6,
                                std::max(line * 6, ImGui::GetContentRegionAvail().y * 0.5F));
  if (plots.empty()) {
    widgets::draw_notes(
        {"There is no such figure of this shift: choose one that was measured, or "
         "models with a position state."});
  }
  grid_.draw(plots, plots_.version(), {.old = answers.old, .below = rows, .titles = false},
             [&](const widgets::PlotSpec& plot, widgets::PlotDraw options) {
               draw_figure(context, plot, std::move(options));
             });
  if (ImGui::BeginChild("table", {0, rows}, ImGuiChildFlags_NavFlattened)) {
    const Dimmed dimmed(answers.old);
    draw_table(context, table);
  }
  ImGui::EndChild();
}

}  // namespace phasescope::app
