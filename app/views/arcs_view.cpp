#include "app/views/arcs_view.h"

#include <algorithm>
#include <utility>

#include "app/figures/figures.h"
#include "app/outputs/result_tables.h"
#include "app/views/controls_room.h"
#include "app/views/text_view.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::MapResult;
using widgets::Arc;

constexpr int kMostKeys = 16;
// Lines of the words at the pointer.
constexpr std::size_t kMostSaid = 12;

std::vector<Arc> arcs_in(const MapResult& result) {
  std::vector<Arc> arcs;
  for (const protocol::TopKeys& top : result.top) {
    for (std::size_t n = 0; n < top.keys.size(); ++n) {
      arcs.push_back({static_cast<int>(top.query), static_cast<int>(top.keys[n]),
                      static_cast<float>(top.weights[n])});
    }
  }
  std::ranges::stable_sort(arcs, {}, &Arc::query);
  return arcs;
}

// The queries on show in the map; of more than are asked for, those around the selected one.
// Nothing where they are all of the text. `tokens`: how many it has, 0 where that is not known.
std::optional<protocol::Range> queries_asked(const Session& session, std::int64_t tokens) {
  constexpr std::int64_t most = ArcsView::kMostQueries;
  const Region& region = session.region;
  std::int64_t begin = region.row_begin, end = region.row_end > 0 ? region.row_end : tokens;
  if (tokens > 0) end = std::min(end, tokens);
  if (end - begin > most) {
    const std::int64_t middle = session.selection.query.value_or(begin);
    begin = std::clamp(middle - most / 2, begin, end - most), end = begin + most;
  }
  if (end <= begin || (begin == 0 && end == tokens)) return std::nullopt;
  return protocol::Range{begin, end};
}

// How many tokens the session's text has, once the model has read it.
std::int64_t tokens_read(const ViewContext& context, const std::string& model) {
  const auto& question = context.requests.of(kText, model);
  return question.answers_now() ? static_cast<std::int64_t>(question.answer()->result.tokens.size())
                                : 0;
}

std::string token_words(const std::string& side, std::int64_t place, const std::string& text) {
  return side + " " + std::to_string(place) + (text.empty() ? "" : " \"" + text + "\"");
}

}  // namespace

std::string ArcsView::help_text() const {
  return "The text twice: as queries at the left, as keys at the right. An arc joins a query with "
         "each of the keys that have the largest weights of its row; the stronger it is, the more "
         "weight. Point at a query to see where it looks, at a key to see which queries look at it "
         "(those of the rows that were asked for); a click marks it in all views.";
}

// A mean of heads has no largest weights of its own. Of a long text a part is asked for, once it is
// known how long it is.
void ArcsView::ask(ViewContext& context) {
  ask_for_tokens(context);
  const std::string model = selected_model(context.session());
  const Selection& at = context.session().selection;
  if (model.empty() || at.head < 0) return;
  const std::int64_t tokens = tokens_read(context, model);
  const auto* report = context.info(model);
  if (tokens == 0 && report && report->length > kMostQueries) return;
  const TextInput text = context.text_for(model);
  protocol::MapRequest request{.model = model};
  const bool stacks = context.has_stacks(model) && !at.stack.empty();
  request.head = {(stacks ? at.stack + "." : "") + name_of_head(at.layer, at.head)};
  request.top = std::clamp<std::int64_t>(context.state<ArcsState>().keys, 1, kMostKeys);
  request.size = {1, 1};
  request.rows = queries_asked(context.session(), tokens);
  set_text(request.reading, text);
  context.requests.ask(context.requests.of(kArcs, model), request, text.words);
}

const ArcsView::MapAnswer* ArcsView::answer_of(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  return model.empty() ? nullptr : context.requests.of(kArcs, model).answer();
}

std::string ArcsView::command_line(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  if (model.empty()) return "";
  return command_of<protocol::MapRequest>({context.requests.of(kArcs, model).asked()});
}

WhatRan ArcsView::kernels(const ViewContext& context) const {
  const auto* answer = answer_of(context);
  return answer ? what_ran(answer->result.provenance) : WhatRan{};
}

std::vector<Saved> ArcsView::saved(ViewContext& context) {
  const auto* answer = answer_of(context);
  if (!answer) return {};
  Output output{.result = protocol::to_json_form(answer->result),
                .provenance = provenance_of(answer->result)};
  output.figures = {arcs_figure(answer->result, names_of(context.session()))};
  return {{"", std::move(output), command_of<protocol::MapRequest>({answer->asked})}};
}

void ArcsView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<ArcsState>();
  const Selection& at = context.session().selection;
  const std::string model = selected_model(context.session());
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::AlignTextToFramePadding();
  ImGui::Text("%s %s%s", short_name(context.session(), model).c_str(),
              at.stack.empty() ? "" : (at.stack + ".").c_str(),
              name_of_head(at.layer, at.head).c_str());
  ImGui::PopFont();
  next_control(12 * ImGui::GetFontSize());
  int keys = static_cast<int>(state.keys);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 6);
  // The number stands beside it: the handle would cover it.
  const std::string label =
      std::to_string(keys) + (keys == 1 ? " key" : " keys") + " a query###keys";
  if (ImGui::SliderInt(label.c_str(), &keys, 1, kMostKeys, "")) {
    state.keys = std::clamp(keys, 1, kMostKeys);
    context.set_state("Show other arcs", state, "arcs");
  }
  tooltip("How many keys of each query have an arc: those with the largest weights");
  draw_tools(context);
}

// What the pointer is at, with its arcs, the strongest first.
void ArcsView::draw_words(const ViewContext& context, const MapAnswer& answer,
                          const widgets::ArcsDrawn& drawn) const {
  const auto model = static_cast<std::size_t>(context.session().selection.model);
  const bool query = drawn.hovered_query >= 0;
  const int place = query ? drawn.hovered_query : drawn.hovered_key;
  if (place < 0 || !ImGui::BeginTooltip()) return;
  const bool cross = answer.result.stack == "cross";
  const auto words = [&](bool of_query, int at) {
    return token_words(of_query ? "query" : "key", at,
                       !of_query && cross ? "" : token_text(context, model, at, answer.asked));
  };
  ImGui::TextUnformatted(words(query, place).c_str());
  std::vector<Arc> arcs;
  for (const Arc& arc : arcs_.value()) {
    if ((query ? arc.query : arc.key) == place) arcs.push_back(arc);
  }
  std::ranges::stable_sort(arcs, [](const Arc& a, const Arc& b) { return a.weight > b.weight; });
  for (std::size_t n = 0; n < std::min(arcs.size(), kMostSaid); ++n) {
    ImGui::TextColored(widgets::palette().quiet, "%s  %s",
                       widgets::short_number(static_cast<double>(arcs[n].weight)).c_str(),
                       words(!query, query ? arcs[n].key : arcs[n].query).c_str());
  }
  if (arcs.size() > kMostSaid) {
    ImGui::TextColored(widgets::palette().quiet, "and %zu more", arcs.size() - kMostSaid);
  }
  ImGui::EndTooltip();
}

void ArcsView::draw_answer(ViewContext& context, const MapAnswer& answer) {
  const auto& arcs = arcs_.get(serials_of(&answer), [&] { return arcs_in(answer.result); });
  const Selection& at = context.session().selection;
  const auto model = static_cast<std::size_t>(at.model);
  widgets::ArcsSpec spec{.arcs = &arcs};
  spec.tokens = static_cast<int>(std::max(answer.result.tokens, answer.result.keys));
  spec.query_text = [&](std::int64_t place) {
    return token_text(context, model, place, answer.asked);
  };
  if (answer.result.stack != "cross") spec.key_text = spec.query_text;
  spec.query = static_cast<int>(at.query.value_or(-1));
  spec.key = static_cast<int>(at.key.value_or(-1));
  const widgets::Hover pointed = marks_on(context, context.hover(), model);
  spec.pointed_query = static_cast<int>(pointed.at(widgets::Coordinate::token).value_or(-1));
  spec.pointed_key = static_cast<int>(pointed.key.value_or(-1));
  if (at.query && revealed_ != at.query && *at.query < spec.tokens) spec.reveal = spec.query;
  revealed_ = at.query;
  const auto drawn = widgets::draw_arcs(spec);
  draw_words(context, answer, drawn);
  widgets::Hover hover;
  hover.model = at.model;
  if (drawn.hovered_query >= 0) hover.query = drawn.hovered_query;
  if (drawn.hovered_key >= 0) hover.key = drawn.hovered_key;
  if (hover.query || hover.key) context.point_at(hover);
  if (drawn.stepped_query >= 0 && at.key) {
    select_pair(context, drawn.stepped_query, *at.key);
  } else if (drawn.stepped_query >= 0) {
    select_query(context, drawn.stepped_query);
  }
  if (drawn.stepped_key >= 0) {
    select_pair(context, at.query.value_or(drawn.stepped_key), drawn.stepped_key);
  }
  if (drawn.clicked_query >= 0) select_query(context, revealed_ = drawn.clicked_query);
  if (drawn.clicked_key >= 0) {
    select_pair(context, at.query.value_or(drawn.clicked_key), drawn.clicked_key);
  }
}

void ArcsView::draw_content(ViewContext& context) {
  fit_to_text(context);
  draw_controls(context);
  const std::string model = selected_model(context.session());
  if (model.empty()) {
    return widgets::draw_empty("Where the selected head looks will be here. Tick a model.");
  }
  if (context.session().selection.head < 0) {
    return widgets::draw_empty("A mean of heads has no largest weights: select one head.");
  }
  const std::int64_t tokens = tokens_read(context, model);
  if (std::exchange(tokens_, tokens) != tokens) ask(context);
  auto& question = context.requests.of(kArcs, model);
  draw_question(context, question, short_name(context.session(), model));
  const auto* answer = question.answer();
  if (!answer) return;
  std::vector<std::string> notes{"queries [" + std::to_string(answer->result.row_begin) + ", " +
                                 std::to_string(answer->result.row_end) + ") of " +
                                 std::to_string(answer->result.tokens)};
  const float below = widgets::notes_height(notes, ImGui::GetContentRegionAvail().x) + 6;
  const float height = std::max(80.0F, ImGui::GetContentRegionAvail().y - below);
  if (ImGui::BeginChild("arcs", {0, height}, ImGuiChildFlags_NavFlattened)) {
    const Dimmed dimmed(!question.answers_now());
    draw_answer(context, *answer);
  }
  ImGui::EndChild();
  widgets::draw_notes(notes);
}

}  // namespace phasescope::app
