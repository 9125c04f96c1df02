#include "app/views/distance_view.h"

#include <algorithm>
#include <cmath>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/outputs/result_tables.h"
#include "app/views/controls_room.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::DistanceModel;
using widgets::PlotSpec;

using protocol::DistanceResult;
using DistanceAnswers = ShownAnswers<DistanceResult>;

const std::vector<std::string>& distance_figures() {
  static const std::vector<std::string> names{"near - far",  "score",          "weight",
                                              "score parts", "intrinsic bias", "head bias"};
  return names;
}

DistanceResult merged(const DistanceAnswers& answers) {
  DistanceResult all;
  for (const auto* answer : answers.list) {
    for (const DistanceModel& model : answer->result.models) all.models.push_back(model);
  }
  return all;
}

// What is shown of a result: one group of its figures, of one layer or head or all of them.
std::vector<PlotSpec> plots_shown(const DistanceResult& result, const DistanceState& state,
                                  const ModelNames& names) {
  std::vector<GroupedFigure> figures = figures_of(result.models, names, state.layer, state.head);
  std::erase_if(figures, [&](const GroupedFigure& one) { return one.group != state.figure; });
  return plots_of(std::move(figures));
}

// Why no model has such a figure.
std::string words_of_none(const DistanceState& state) {
  const std::string none = "None of the open models has \"" + state.figure + "\"";
  if (state.figure == "intrinsic bias" || state.figure == "head bias") {
    return none + ": it is defined for rotary encodings.";
  }
  if (state.layer < 0) return none + ".";
  return none + " of " + name_of_head(state.layer, state.head) + ".";
}

// The histogram of all layers, of one, or of one head, where the model has it and heads were
// measured apart.
const protocol::NearFar* histogram_of(const DistanceModel& model, const DistanceState& state) {
  if (state.layer < 0) return model.histogram ? &*model.histogram : nullptr;
  for (const protocol::DistanceGroup& group : state.head < 0 ? model.layers : model.heads) {
    if (group.layer == state.layer && (state.head < 0 || group.head == state.head) &&
        group.histogram) {
      return &*group.histogram;
    }
  }
  return nullptr;
}

// Numbers of layers and heads of the largest open model.
std::pair<std::int64_t, std::int64_t> largest_shape(const ViewContext& context) {
  std::int64_t layers = 0, heads = 0;
  for (const std::string& model : context.session().models) {
    if (const auto* report = context.info(model)) {
      layers = std::max(layers, report->model.layers);
      heads = std::max(heads, report->model.heads);
    }
  }
  return {layers, heads};
}

// A choice of "all", L0, L1, ..; true where another one was taken.
bool draw_number(const char* id, const char* all, const char* letter, std::int64_t count,
                 std::int64_t& value) {
  std::vector<std::string> words{all};
  for (std::int64_t i = 0; i < count; ++i) words.push_back(letter + std::to_string(i));
  const auto place = static_cast<std::size_t>(value + 1);
  std::string word = place < words.size() ? words[place] : words[0];
  if (!draw_choice(id, word, words)) return false;
  value = std::ranges::find(words, word) - words.begin() - 1;
  return true;
}

protocol::Interval in_percent(protocol::Interval share) {
  share.mean *= 100;
  for (protocol::IntervalEnd* end : {&share.low, &share.high}) {
    if (*end) *end = 100 * **end;
  }
  return share;
}

// A number whose interval is said on hover.
widgets::TableCell measured_cell(double value, const protocol::Interval& interval) {
  auto cell = widgets::number_cell_of(value);
  cell.help = with_ends(interval) + ", " + words_of(interval);
  return cell;
}

// In the window the table below holds the numbers; the legend only names the models.
void shorten_labels(std::vector<PlotSpec>& plots) {
  for (PlotSpec& plot : plots) {
    for (widgets::Series& series : plot.series) {
      if (!series.quiet) series.label = series.label.substr(0, series.label.find(':'));
    }
    for (widgets::Marker& marker : plot.markers) marker.label.clear();
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
  const auto state = context.state<DistanceState>();
  ask_of_all(context, kDistance, [&](const std::string& model, const TextInput& text) {
    auto request = with_choices(protocol::DistanceRequest{.models = {model}}, state.options);
    request.per_head = request.per_head || state.head >= 0 || state.figure == "intrinsic bias";
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

// Whose heads are shown.
bool DistanceView::draw_place(ViewContext& context, DistanceState& state) {
  const auto [layers, heads] = largest_shape(context);
  bool changed = draw_number("##layer", "all layers", "L", layers, state.layer);
  tooltip("Pooled over the heads of all layers, or of one");
  if (state.layer < 0) {
    state.head = -1;
    return changed;
  }
  next_control(choice_width({"all heads"}));
  changed |= draw_number("##head", "all heads", "H", heads, state.head);
  tooltip("One head is measured apart from the others, which takes longer");
  return changed;
}

void DistanceView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<DistanceState>();
  bool changed = draw_choice("##figure", state.figure, distance_figures());
  next_control(choice_width({"all layers"}));
  changed |= draw_place(context, state);
  next_control(choice_width({"this text"}));
  const bool corpus = state.options.value("corpus", nlohmann::json(false)) != false;
  std::string source = corpus ? "corpus" : "this text";
  if (draw_choice("##source", source, {"corpus", "this text"})) {
    if (source == "corpus") {
      state.options["corpus"] = true;
    } else {
      state.options.erase("corpus");
    }
    changed = true;
  }
  tooltip("corpus: the bundled validation texts, or those that the options name");
  next_control(6 * ImGui::GetFontSize());
  changed |= form_.draw<protocol::DistanceRequest>(state.options, DistanceState{}.options,
                                                   {"device", "threads"});
  if (changed) context.set_state("Change the distance figure", state);
  draw_tools(context);
}

// The numbers of the histograms on show, a row each.
ModelRows DistanceView::numbers_of(const ViewContext& context, const DistanceResult& result) const {
  ModelRows rows{.spec = {.id = "near_far"}};
  rows.spec.columns = {{.title = "near - far", .numbers = false},
                       {.title = "mean", .help = "with its 95 % interval, clustered by text"},
                       {.title = "sigma"},
                       {.title = "skew"},
                       {.title = "above 0 (%)", .help = "pairs whose near score is the larger one"},
                       {.title = "pairs"}};
  const auto state = context.state<DistanceState>();
  for (const DistanceModel& model : result.models) {
    const protocol::NearFar* found = histogram_of(model, state);
    if (!found) continue;
    const protocol::NearFar& h = *found;
    const std::string bands = "near [" + std::to_string(h.near_begin) + ", " +
                              std::to_string(h.near_end) + "), far [" +
                              std::to_string(h.far_begin) + ", " + std::to_string(h.far_end) + ")";
    auto pairs = widgets::number_cell_of(static_cast<double>(h.pairs));
    pairs.help = std::to_string(h.texts) + " texts";
    auto mean = measured_cell(h.mean, h.intervals.mean);
    mean.low = h.intervals.mean.low.value_or(std::nan(""));
    mean.high = h.intervals.mean.high.value_or(std::nan(""));
    rows.models.push_back(model.model);
    rows.spec.rows.push_back(
        {cell_of_model(context.session(), model.model,
                       bands + (model.note.empty() ? "" : "\n" + model.note)),
         std::move(mean), measured_cell(h.sigma, h.intervals.sigma),
         measured_cell(h.skewness, h.intervals.skewness),
         measured_cell(100 * h.share_positive, in_percent(h.intervals.share_positive)),
         std::move(pairs)});
  }
  return rows;
}

void DistanceView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0) {
    return widgets::draw_empty("Tick models to compare how they favour near keys.");
  }
  draw_questions(context, kDistance);
  const DistanceAnswers answers = shown_answers(context, kDistance);
  if (!answers.empty()) draw_results(context, answers);
}

void DistanceView::draw_results(ViewContext& context, const DistanceAnswers& answers) {
  const auto state = context.state<DistanceState>();
  const std::string key = answers.key(context);
  const DistanceResult& result = result_.get(key, [&] { return merged(answers); });
  const std::string what =
      state.figure + std::to_string(state.layer) + "/" + std::to_string(state.head);
  const auto& plots = plots_.get(key + what, [&] {
    auto made = plots_shown(result, state, names_of(context.session()));
    shorten_labels(made);
    return made;
  });
  if (plots.empty()) return widgets::draw_empty(words_of_none(state));
  const auto& numbers = numbers_.get(key + what, [&] { return numbers_of(context, result); });
  const bool table = state.figure == "near - far";
  const float below = table ? ModelTable::height_of(numbers.models.size()) : 0;
  grid_.draw(plots, plots_.version(), {.old = answers.old, .below = below},
             [&](const PlotSpec& plot, widgets::PlotDraw options) {
               draw_figure(context, plot, std::move(options));
             });
  table_.draw(context, numbers, numbers_.version(), below, answers.old,
              [&] { draw_menu_items(context); });
}

}  // namespace phasescope::app
