#include "app/views/extrapolation_view.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "app/figures/figures.h"
#include "app/figures/intervals.h"
#include "app/window/session_requests.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::EvalResult;
using protocol::EvalRow;
using widgets::PlotSpec;

EvalResult merged_eval(const ViewContext& context) {
  EvalResult all;
  for (std::size_t i = 0; i < context.models(); ++i) {
    const auto* answer = context.of(i).eval.answer();
    if (!answer) continue;
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

// With the models' short names, for figures and tables.
EvalResult as_shown(const Session& session, EvalResult result) {
  for (EvalRow& row : result.rows) row.model = short_name(session, row.model);
  for (protocol::PositionCurve& curve : result.positions)
    curve.model = short_name(session, curve.model);
  return result;
}

// "bits per byte" for "bits_per_byte".
std::string in_words(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

std::string lengths_text(const std::vector<int64_t>& lengths) {
  std::string words;
  for (int64_t length : lengths) words += (words.empty() ? "" : ",") + std::to_string(length);
  return words;
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

std::string ExtrapolationView::command_line(const Session& session) const {
  if (session.models.empty()) return "";
  // Models of other lengths have a line of their own.
  const auto lengths_of = [&](const std::string& model) {
    const auto found = lengths_.find(model);
    return found == lengths_.end() ? std::string() : lengths_text(found->second);
  };
  const std::string lengths = lengths_of(selected_model(session));
  Session alike = session;
  std::erase_if(alike.models, [&](const auto& model) { return lengths_of(model) != lengths; });
  return verb_line(alike, "eval perplexity") + (lengths.empty() ? "" : " --lengths " + lengths) +
         " --trials " + std::to_string(session.extrapolation.trials);
}

void ExtrapolationView::ask(ViewContext& context) {
  for (const std::string& model : context.session().models) {
    auto& questions = context.requests.of(model);
    const auto* info = questions.info.answer();
    lengths_[model] = info ? eval_lengths(info->result) : std::vector<int64_t>();
    context.requests.ask(questions.eval, eval_params(context.session(), model, lengths_[model]));
  }
}

Output ExtrapolationView::exported(ViewContext& context) {
  Output output;
  const EvalResult measured = merged_eval(context);
  output.result = protocol::to_json_form(measured);
  const EvalResult result = as_shown(context.session(), measured);
  if (!result.rows.empty()) output.figures.push_back(eval_figure(result));
  if (!result.positions.empty()) output.figures.push_back(position_loss_figure(result));
  return output;
}

void ExtrapolationView::draw_controls(ViewContext& context) {
  ExtrapolationState state = context.session().extrapolation;
  bool changed = draw_choice("##figure", state.figure, {"loss by position", "loss by length"});
  ImGui::SameLine();
  int texts = static_cast<int>(state.trials);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 7);
  std::string words = std::to_string(texts) + " texts";
  if (draw_choice("##texts", words, {"8 texts", "16 texts", "32 texts", "64 texts"})) {
    state.trials = std::stoll(words);
    changed = true;
  }
  tooltip("More texts, narrower intervals, more time");
  if (changed)
    context.edit.apply("Change the evaluation", [&](Session& s) { s.extrapolation = state; });
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
    const std::string name = short_name(context.session(), model);
    ImGui::TextColored(widgets::series_vec(color_of_model(context.session(), model)), "%s",
                       name.c_str());
    if (name != model) tooltip(model);
    const auto own = std::ranges::find(result.rows, name, &EvalRow::model);
    if (own != result.rows.end() && own->metric != result.metric) {
      ImGui::SameLine();
      ImGui::TextColored(widgets::palette().quiet, "%s", in_words(own->metric).c_str());
    }
    for (int64_t length : lengths) {
      ImGui::TableNextColumn();
      for (const EvalRow& row : result.rows) {
        if (row.model != name || row.length != length) continue;
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
  for (std::size_t i = 0; i < context.models(); ++i)
    draw_question(context, context.of(i).eval,
                  short_name(context.session(), context.session().models[i]));
  const std::string key = names_key(context) + answers_key(context, &ModelQuestions::eval);
  const EvalResult& result =
      result_.get(key, [&] { return as_shown(context.session(), merged_eval(context)); });
  if (result.rows.empty() && result.positions.empty()) return;
  const std::string& figure = context.session().extrapolation.figure;
  const PlotSpec& plot = plot_.get(key + figure, [&] {
    const bool by_position = figure == "loss by position" && !result.positions.empty();
    PlotSpec made = by_position ? position_loss_figure(result) : eval_figure(result);
    // The table below has the numbers of each model.
    for (const std::string& model : context.session().models)
      std::erase_if(made.notes, [&](const auto& note) {
        return note.rfind(short_name(context.session(), model) + ":", 0) == 0;
      });
    return made;
  });
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float below =
      result.rows.empty() ? 0 : line * (1.5F + 1.15F * static_cast<float>(context.models()));
  const float height = std::max(120.0F, ImGui::GetContentRegionAvail().y - below);
  if (ImGui::BeginChild("plot", {0, height})) {
    widgets::PlotDraw options;
    options.version = plot_.version();
    widgets::draw_plot(plot, options);
  }
  ImGui::EndChild();
  if (!result.rows.empty()) draw_table(context, result);
}

}  // namespace phasescope::app
