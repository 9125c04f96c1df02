#include "app/views/extrapolation_view.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "app/figures/eval_names.h"
#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/figures/published.h"
#include "app/outputs/eval_output.h"
#include "app/views/controls_room.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::EvalResult;
using protocol::EvalRow;
using widgets::PlotSpec;

using EvalAnswers = ShownAnswers<EvalResult>;

constexpr const char* kDifference = "paired difference";
constexpr const char* kBundledTexts = "the bundled validation texts";
constexpr float kWidthOfTools = 12;  // font sizes

EvalResult joined(const EvalAnswers& answers) {
  EvalResult all;
  for (const auto* answer : answers.list) {
    const EvalResult& one = answer->result;
    const bool alike = all.metric.empty() || all.metric == one.metric;
    all.task = one.task, all.metric = alike ? one.metric : "bits";
    all.chance = all.rows.empty() || all.chance == one.chance ? one.chance : std::nan("");
    all.length_unit = one.length_unit, all.counted = one.counted;
    all.rows_of = one.rows_of, all.columns_of = one.columns_of;
    all.cells.insert(all.cells.end(), one.cells.begin(), one.cells.end());
    all.rows.insert(all.rows.end(), one.rows.begin(), one.rows.end());
    all.positions.insert(all.positions.end(), one.positions.begin(), one.positions.end());
    all.provenance.insert(all.provenance.end(), one.provenance.begin(), one.provenance.end());
  }
  return all;
}

bool wants_difference(const ViewContext& context) {
  return context.models() > 1 && context.state<ExtrapolationState>().figure == kDifference;
}

// Whether a task's lengths are windows of tokens, which follow from the models' trained lengths.
// So it is before the list of tasks has come.
bool lengths_of_the_models(const ViewContext& context, const std::string& task) {
  const auto* known = context.requests.of(kEvalTasks).answer();
  if (!known) return true;
  for (const protocol::EvalTaskInfo& one : known->result.tasks) {
    for (const protocol::EvalOptionInfo& option : one.options) {
      if (one.key == task && option.key == "window") return true;
    }
  }
  return false;
}

bool measures_perplexity(const EvalChoices& choices) {
  return choices.task == kPerplexity && choices.request({}).perplexity.metric == kPerplexity;
}

// The value of a model at a length; what it was measured by is said on hover.
widgets::TableCell cell_of_row(const EvalRow& row, const EvalResult& result) {
  constexpr double kNone = widgets::TableCell::kNone;
  auto cell = widgets::number_cell_of(row.value, row.low.value_or(kNone), row.high.value_or(kNone));
  cell.help = words_of_key(row.metric) + " " + with_ends(row.value, row.low, row.high) + ", " +
              std::to_string(row.n) + " " + result.counted.value_or("texts") +
              ", interval: " + row.method + (row.window.empty() ? "" : "; window " + row.window) +
              (row.blind ? "; blind guesser " + widgets::short_number(*row.blind) : "");
  return cell;
}

}  // namespace

std::string ExtrapolationView::help_text() const {
  return "How the models read past the length they were trained at, on the bundled validation "
         "texts. By position: mean loss of the tokens at each place, to four times the trained "
         "length, but no further than 16384 tokens and the end of a table of learned positions. By "
         "length: mean loss; the window rule is always named, four of them circulate. A "
         "model without a tokenizer reads seeded random ids, and its bits are those of a token. "
         "Bands are 95 % intervals by text. Paired difference: all models read the same texts in "
         "one "
         "question, and their losses are subtracted text by text.";
}

std::string words_of_reading(const protocol::EvalRequest& request) {
  const protocol::PerplexityOptions& read = request.perplexity;
  std::string of = request.task == kPerplexity ? kBundledTexts : "samples of the task";
  if (!read.corpus.path.empty()) of = "the texts of " + read.corpus.path;
  if (!read.corpus.texts.is_null()) of = "texts that were given";
  if (read.input != protocol::Input{}) of = "one text";
  return request.task + " of " + of;
}

std::vector<std::int64_t> eval_lengths(const protocol::LoadReport& report) {
  const std::int64_t trained = std::min(report.model.context, kLongestRead / 4);
  if (trained < 1) return {};
  if (report.encoding != "learned") return {trained, 2 * trained, 4 * trained};
  const std::int64_t stated = report.encoding_options.value("max_positions", std::int64_t{0});
  const std::int64_t rows = stated > 0 ? stated : report.model.context;
  std::vector<std::int64_t> lengths{trained, 2 * trained, 4 * trained};
  std::erase_if(lengths, [&](std::int64_t length) { return length > rows; });
  if (lengths.size() < 2) lengths = {trained / 4, trained / 2, trained};
  std::erase_if(lengths, [](std::int64_t length) { return length < 1; });
  return lengths;
}

protocol::EvalRequest ExtrapolationView::request_of(const ViewContext& context,
                                                    std::vector<std::string> models) const {
  EvalChoices choices = context.state<ExtrapolationState>().choices;
  const bool chosen = choices.options.contains("lengths");
  std::vector<std::int64_t> lengths;
  if (!chosen && lengths_of_the_models(context, choices.task)) {
    for (const std::string& model : models) {
      if (const auto* report = context.info(model)) {
        for (const std::int64_t length : eval_lengths(*report)) lengths.push_back(length);
      }
    }
  }
  std::ranges::sort(lengths);
  lengths.erase(std::ranges::unique(lengths).begin(), lengths.end());
  if (!lengths.empty()) choices.options["lengths"] = lengths;
  return choices.request(std::move(models));
}

void ExtrapolationView::ask(ViewContext& context) {
  context.requests.ask(context.requests.of(kEvalTasks), protocol::EvalListRequest{});
  ask_of_all(context, kEval, [&](const std::string& model, const TextInput&) {
    return request_of(context, {model});
  });
  if (wants_difference(context)) {
    context.requests.ask(context.requests.of(kEvalTogether),
                         request_of(context, context.session().models));
  }
}

// The answer with the differences, where it is to what these answers are to: what one corpus gave
// never stands beside what another one did.
const Answer<EvalResult>* ExtrapolationView::differences_beside(const ViewContext& context,
                                                                const EvalAnswers& answers) {
  const auto& question = context.requests.of(kEvalTogether);
  const auto* together = question.answer();
  if (!wants_difference(context) || !together || answers.empty()) return nullptr;
  const bool beside =
      answers.old ? alike(together->asked, answers.list.front()->asked) : question.answers_now();
  return beside ? together : nullptr;
}

// Every model's own answer, and the differences of all.
EvalResult ExtrapolationView::merged(const ViewContext& context, const EvalAnswers& answers) {
  EvalResult all = joined(answers);
  if (const auto* together = differences_beside(context, answers)) {
    all.differences = together->result.differences;
  }
  return all;
}

std::vector<Saved> ExtrapolationView::saved(ViewContext& context) {
  const EvalAnswers answers = shown_answers(context, kEval);
  if (answers.empty()) return {};
  const EvalResult result = merged(context, answers);
  Output output = eval_output(result, protocol::to_json_form(result), names_of(context.session()));
  std::vector<Asked> asked = answers.asked();
  if (const auto* together = differences_beside(context, answers)) asked.push_back(together->asked);
  return {{"", std::move(output), command_of<protocol::EvalRequest>(asked)}};
}

void ExtrapolationView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<ExtrapolationState>();
  std::vector<std::string> groups{"loss by position", "loss by length"};
  if (context.models() > 1) groups.emplace_back(kDifference);
  if (measures_perplexity(state.choices)) groups.emplace_back(kPublishedGroup);
  bool changed = draw_choice("##figure", state.figure, groups);
  next_control(6 * ImGui::GetFontSize());
  const auto* tasks = context.requests.of(kEvalTasks).answer();
  changed |=
      form_.draw(state.choices, ExtrapolationState{}.choices, tasks ? &tasks->result : nullptr);
  if (changed) context.set_state("Change the evaluation", state);
  // Of what is shown: while other texts are read it is still of those before.
  const EvalAnswers answers = shown_answers(context, kEval);
  const std::string whole = answers.empty() ? state.choices.task : words_of_shown(answers);
  ImGui::SameLine();
  const float room = ImGui::GetContentRegionAvail().x - kWidthOfTools * ImGui::GetFontSize();
  // The texts that nobody has chosen are left out where they would take a line of their own.
  const bool usual = whole.ends_with(kBundledTexts);
  const bool fits = ImGui::CalcTextSize(whole.c_str()).x <= room;
  const std::string words = fits || !usual ? whole : whole.substr(0, whole.find(" of "));
  next_control(ImGui::CalcTextSize(words.c_str()).x);
  ImGui::TextColored(widgets::palette().quiet, "%s", words.c_str());
  tooltip("What is shown: " + whole);
  draw_tools(context);
}

// What was asked of an answer is read from its JSON once.
const std::string& ExtrapolationView::words_of_shown(const EvalAnswers& answers) {
  const auto* first = answers.list.front();
  return reading_.get(serials_of(first), [&] {
    return words_of_reading(protocol::request_of<protocol::EvalRequest>(first->asked.params));
  });
}

// A row for each model, a column for each length, shortest first.
ModelRows ExtrapolationView::numbers_of(const ViewContext& context, const EvalResult& result,
                                        const std::string& shown) const {
  std::set<std::int64_t> lengths;
  for (const EvalRow& row : result.rows) lengths.insert(row.length);
  const bool windows = !result.rows.empty() && !result.rows.front().window.empty();
  const std::string window = windows ? ", " + result.rows.front().window : "";
  ModelRows rows{.spec = {.id = "by_length"}};
  rows.spec.columns = {{.title = words_of_key(result.metric) + window + ", by length",
                        .help = shown,
                        .numbers = false}};
  for (const std::int64_t length : lengths) {
    rows.spec.columns.push_back({.title = std::to_string(length)});
    // Dear ImGui keeps what is known of columns for as long as a table has one id.
    rows.spec.id += "/" + std::to_string(length);
  }
  for (const std::string& model : context.session().models) {
    const auto own = std::ranges::find(result.rows, model, &EvalRow::model);
    if (own == result.rows.end()) continue;
    auto name = cell_of_model(context.session(), model);
    if (own->metric != result.metric) name.words += "  " + words_of_key(own->metric);
    std::vector<widgets::TableCell> line{std::move(name)};
    for (const std::int64_t length : lengths) {
      const auto found = std::ranges::find_if(result.rows, [&](const EvalRow& row) {
        return row.model == model && row.length == length;
      });
      line.push_back(found == result.rows.end() ? widgets::TableCell{}
                                                : cell_of_row(*found, result));
    }
    rows.models.push_back(model);
    rows.spec.rows.push_back(std::move(line));
  }
  return rows;
}

void ExtrapolationView::draw_content(ViewContext& context) {
  draw_controls(context);
  // What is asked depends on the options that the task has.
  const auto* tasks = context.requests.of(kEvalTasks).answer();
  if (tasks && tasks->serial != std::exchange(tasks_serial_, tasks->serial)) ask(context);
  if (context.models() == 0) {
    return widgets::draw_empty("Tick models to see how they read past their trained length.");
  }
  draw_questions(context, kEval);
  if (wants_difference(context)) {
    draw_question(context, context.requests.of(kEvalTogether), "differences");
  }
  const EvalAnswers answers = shown_answers(context, kEval);
  if (!answers.empty()) draw_results(context, answers);
}

std::vector<PlotSpec> ExtrapolationView::figures_to_draw(const ViewContext& context,
                                                         const EvalResult& result) const {
  const ModelNames names = names_of(context.session());
  const std::string figure = context.state<ExtrapolationState>().figure;
  std::vector<GroupedFigure> all = figures_of(result, names);
  std::vector<PlotSpec> plots;
  for (GroupedFigure& one : all) {
    if (one.group == figure) plots.push_back(std::move(one.plot));
  }
  // The answers do not have the one that was chosen.
  if (plots.empty() && !all.empty()) plots.push_back(std::move(all.front().plot));
  // The table below has the numbers of each model.
  for (PlotSpec& plot : plots) {
    for (const std::string& model : names.models()) {
      std::erase_if(plot.notes, [&](const auto& note) {
        return note.starts_with(names.short_name(model) + ":");
      });
    }
  }
  return plots;
}

void ExtrapolationView::draw_results(ViewContext& context, const EvalAnswers& answers) {
  const std::string figure = context.state<ExtrapolationState>().figure;
  const auto* together = differences_beside(context, answers);
  const std::string key = answers.key(context) + serials_of(together) + figure;
  const EvalResult& result = result_.get(key, [&] { return merged(context, answers); });
  if (result.rows.empty() && result.positions.empty()) return;
  const auto& plots = plots_.get(key, [&] { return figures_to_draw(context, result); });
  const auto& numbers =
      numbers_.get(key, [&] { return numbers_of(context, result, words_of_shown(answers)); });
  const float below = ModelTable::height_of(numbers.models.size());
  grid_.draw(plots, plots_.version(),
             {.old = answers.old, .below = below, .titles = figure == kPublishedGroup},
             [&](const PlotSpec& plot, widgets::PlotDraw options) {
               draw_figure(context, plot, std::move(options));
             });
  table_.draw(context, numbers, numbers_.version(), below, answers.old,
              [&] { draw_menu_items(context); });
}

}  // namespace phasescope::app
