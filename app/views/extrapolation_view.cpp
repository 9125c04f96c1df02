#include "app/views/extrapolation_view.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/verbs/verb_tools.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::EvalResult;
using protocol::EvalRow;
using widgets::PlotSpec;

using EvalAnswers = ShownAnswers<EvalResult>;

EvalResult merged(const EvalAnswers& answers) {
  EvalResult all;
  for (const auto* answer : answers.list) {
    const EvalResult& one = answer->result;
    const bool alike = all.metric.empty() || all.metric == one.metric;
    all.task = one.task, all.metric = alike ? one.metric : "bits";
    all.chance = all.rows.empty() || all.chance == one.chance ? one.chance : std::nan("");
    all.rows.insert(all.rows.end(), one.rows.begin(), one.rows.end());
    all.positions.insert(all.positions.end(), one.positions.begin(), one.positions.end());
    all.provenance.insert(all.provenance.end(), one.provenance.begin(), one.provenance.end());
  }
  return all;
}

// "bits per byte" for "bits_per_byte".
std::string in_words(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

}  // namespace

std::string ExtrapolationView::help_text() const {
  return "How the models read past the length they were trained at, on the bundled validation "
         "texts. By position: mean loss of the tokens at each place, to four times the trained "
         "length, but no further than 16384 tokens and the end of a table of learned positions. By "
         "length: mean loss; the window rule is always named, four of them circulate. A "
         "model without a tokenizer reads seeded random ids, and its bits are those of a token. "
         "Bands are 95 % intervals by text.";
}

std::vector<int64_t> eval_lengths(const protocol::LoadReport& report) {
  const int64_t trained = std::min(report.model.context, kLongestRead / 4);
  if (trained < 1) return {};
  if (report.encoding != "learned") return {trained, 2 * trained, 4 * trained};
  const int64_t stated = report.encoding_options.value("max_positions", int64_t{0});
  const int64_t rows = stated > 0 ? stated : report.model.context;
  std::vector<int64_t> lengths{trained, 2 * trained, 4 * trained};
  std::erase_if(lengths, [&](int64_t length) { return length > rows; });
  if (lengths.size() < 2) lengths = {trained / 4, trained / 2, trained};
  std::erase_if(lengths, [](int64_t length) { return length < 1; });
  return lengths;
}

void ExtrapolationView::ask(ViewContext& context) {
  const EvalChoices choices = context.state<ExtrapolationState>().choices;
  ask_of_all(context, kEval, [&](const std::string& model, const TextInput&) {
    protocol::EvalRequest request = choices.request({model});
    if (const auto* report = context.info(model); report && request.perplexity.lengths.empty())
      request.perplexity.lengths = eval_lengths(*report);
    return request;
  });
}

std::vector<Saved> ExtrapolationView::saved(ViewContext& context) {
  const EvalAnswers answers = shown_answers(context, kEval);
  if (answers.empty()) return {};
  const EvalResult result = merged(answers);
  Output output{.result = protocol::to_json_form(result), .provenance = provenance_of(result)};
  output.tables = {eval_table(result)};
  output.figures = plots_of(figures_of(result, names_of(context.session())));
  return {{"", std::move(output), command_of<protocol::EvalRequest>(answers.asked())}};
}

void ExtrapolationView::draw_controls(ViewContext& context) {
  auto state = context.state<ExtrapolationState>();
  bool changed = draw_choice("##figure", state.figure, {"loss by position", "loss by length"});
  ImGui::SameLine();
  changed |= form_.draw(state.choices, ExtrapolationState{}.choices);
  if (changed) context.set_state("Change the evaluation", state);
  draw_tools(context);
}

void ExtrapolationView::draw_table(const ViewContext& context, const EvalResult& result) {
  std::set<int64_t> lengths;
  for (const EvalRow& row : result.rows) lengths.insert(row.length);
  const ImGuiTableFlags flags = ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_BordersInnerH;
  if (!ImGui::BeginTable("numbers", 1 + static_cast<int>(lengths.size()), flags)) return;
  const std::string window = result.rows.empty() ? "" : ", " + result.rows.front().window;
  ImGui::TableSetupColumn((in_words(result.metric) + window).c_str());
  for (int64_t length : lengths) ImGui::TableSetupColumn(std::to_string(length).c_str());
  ImGui::TableHeadersRow();
  for (const std::string& model : context.session().models) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    draw_name_in_color(context.session(), model);
    const auto own = std::ranges::find(result.rows, model, &EvalRow::model);
    if (own != result.rows.end() && own->metric != result.metric) {
      ImGui::SameLine();
      ImGui::TextColored(widgets::palette().quiet, "%s", in_words(own->metric).c_str());
    }
    for (int64_t length : lengths) {
      ImGui::TableNextColumn();
      for (const EvalRow& row : result.rows) {
        if (row.model != model || row.length != length) continue;
        ImGui::TextUnformatted(widgets::short_number(row.value).c_str());
        tooltip(in_words(row.metric) + " " + with_ends(row.value, row.low, row.high) + ", " +
                std::to_string(row.n) + " texts, interval: " + row.method + "; window " +
                row.window);
      }
    }
  }
  ImGui::EndTable();
}

void ExtrapolationView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0)
    return widgets::draw_empty("Tick models to see how they read past their trained length.");
  draw_questions(context, kEval);
  const EvalAnswers answers = shown_answers(context, kEval);
  if (!answers.empty()) draw_results(context, answers);
}

PlotSpec ExtrapolationView::plot_of(const ViewContext& context, const EvalResult& result) const {
  const ModelNames names = names_of(context.session());
  const std::string figure = context.state<ExtrapolationState>().figure;
  PlotSpec plot;
  // The one that was chosen, or the other where the answers do not have it.
  for (GroupedFigure& one : figures_of(result, names))
    if (plot.id.empty() || one.group == figure) plot = std::move(one.plot);
  // The table below has the numbers of each model.
  for (const std::string& model : names.models())
    std::erase_if(plot.notes, [&](const auto& note) {
      return note.starts_with(names.short_name(model) + ":");
    });
  return plot;
}

void ExtrapolationView::draw_results(ViewContext& context, const EvalAnswers& answers) {
  const std::string key = answers.key(context);
  const EvalResult& result = result_.get(key, [&] { return merged(answers); });
  if (result.rows.empty() && result.positions.empty()) return;
  const PlotSpec& plot = plot_.get(key + context.state<ExtrapolationState>().figure,
                                   [&] { return plot_of(context, result); });
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float below =
      result.rows.empty() ? 0 : line * (1.5F + 1.15F * static_cast<float>(context.models()));
  const float height = std::max(120.0F, ImGui::GetContentRegionAvail().y - below);
  if (ImGui::BeginChild("plot", {0, height})) {
    const Dimmed dimmed(answers.old);
    widgets::PlotDraw options;
    options.version = plot_.version();
    widgets::draw_plot(plot, options);
  }
  ImGui::EndChild();
  const Dimmed dimmed(answers.old);
  if (!result.rows.empty()) draw_table(context, result);
}

}  // namespace phasescope::app
