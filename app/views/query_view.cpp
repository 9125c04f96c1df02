#include "app/views/query_view.h"

#include <algorithm>
#include <cmath>

#include "app/figures/query_figures.h"
#include "app/outputs/result_tables.h"
#include "app/views/controls_room.h"
#include "app/views/text_view.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::QueryHead;
using protocol::QueryResult;
using QueryAnswers = ShownAnswers<QueryResult>;

// The session's place of a model; -1 where it is not open.
std::int64_t place_of_model(const Session& session, const std::string& model) {
  const auto found = std::ranges::find(session.models, model);
  return found == session.models.end() ? -1 : found - session.models.begin();
}

std::string with_token(std::int64_t place, const std::string& token) {
  return std::to_string(place) + (token.empty() ? "" : " \"" + token + "\"");
}

const protocol::TensorRef* weights_of_query(const Answer<QueryResult>& answer) {
  return protocol::find_tensor(answer.tensors, "weights");
}

// Those that have a picture, in the order of the figures.
std::vector<const Answer<QueryResult>*> with_pictures(const QueryAnswers& answers) {
  auto list = answers.list;
  std::erase_if(list, [](const auto* answer) { return !weights_of_query(*answer); });
  return list;
}

std::vector<widgets::PlotSpec> query_plots(const QueryAnswers& answers, const ModelNames& names) {
  std::vector<widgets::PlotSpec> plots;
  for (const auto* answer : with_pictures(answers)) {
    plots.push_back(query_figure(answer->result, grid_of(*weights_of_query(*answer)), names));
  }
  return plots;
}

std::string model_asked(const Answer<QueryResult>& answer) {
  return answer.asked.params.value("model", "");
}

// Models that cut the text into other tokens have another one at the number that all are asked
// for.
std::string other_tokens_at(const ViewContext& context, std::int64_t query) {
  const auto selected = static_cast<std::size_t>(context.session().selection.model);
  std::string words;
  for (std::size_t i = 0; i < context.models(); ++i) {
    if (same_token(context, selected, i, query)) continue;
    words += (words.empty() ? "query " + std::to_string(query) + " is " : ", ") + "\"" +
             token_text(context, i, query) + "\" in " +
             short_name(context.session(), context.session().models[i]);
  }
  return words;
}

}  // namespace

std::string QueryView::help_text() const {
  return "One row of the attention map of every head: where the selected token looks, as a query, "
         "and before one is selected the last token. Pictures: the heads of each layer from top to "
         "bottom, keys from left to right, weights on one scale for all. Table: each head's "
         "largest weight and its key, sorted and searched. A click selects the head and the pair "
         "in all views.";
}

void QueryView::ask(ViewContext& context) {
  const Selection& at = context.session().selection;
  ask_of_all(context, kQuery, [&](const std::string& model, const TextInput& text) {
    protocol::QueryRequest request{.model = model};
    if (context.has_stacks(model)) request.stack = at.stack;
    request.query = at.query;
    set_text(request.reading, text);
    return request;
  });
  ask_for_tokens(context);
}

std::vector<Saved> QueryView::saved(ViewContext& context) {
  std::vector<Saved> all;
  const ModelNames names = names_of(context.session());
  for (const auto* answer : shown_answers(context, kQuery).list) {
    Output output{.result = protocol::to_json_form(answer->result),
                  .provenance = provenance_of(answer->result),
                  .tables = {query_table(answer->result)}};
    if (const auto* weights = weights_of_query(*answer)) {
      output.figures = {query_figure(answer->result, grid_of(*weights), names)};
      output.tensors = {*weights};
    }
    all.push_back({names.file_name(answer->result.model), std::move(output),
                   command_of<protocol::QueryRequest>({answer->asked})});
  }
  return all;
}

QueryView::Rows QueryView::rows_of(const ViewContext& context, const QueryAnswers& answers) const {
  Rows rows{.spec = {.id = "query", .frozen = 2}};
  rows.spec.columns = {{.title = "model", .numbers = false},
                       {.title = "head", .numbers = false},
                       {.title = "weight", .help = "the largest of the row"},
                       {.title = "key", .help = "where it is"},
                       {.title = "token", .numbers = false},
                       {.title = "further keys", .numbers = false}};
  const ModelNames names = names_of(context.session());
  for (const auto* answer : answers.list) {
    const QueryResult& result = answer->result;
    const std::string asked = model_asked(*answer);
    const std::int64_t model = place_of_model(context.session(), asked);
    for (const QueryHead& head : result.rows) {
      const bool looks = !head.keys.empty();
      const std::int64_t key = looks ? head.keys[0] : -1;
      // Keys of cross attention are the encoder's tokens.
      const std::string token =
          result.stack == "cross" || model < 0
              ? ""
              : token_text(context, static_cast<std::size_t>(model), key, answer->asked);
      rows.places.push_back(
          {model, head.layer, head.head, looks ? std::optional(key) : std::nullopt, result.query});
      rows.spec.rows.push_back(
          {widgets::words_cell_of(names.short_name(asked), names.color(asked)),
           widgets::words_cell_of(name_of_head(head.layer, head.head)),
           widgets::number_cell_of(looks ? head.weights[0] : std::nan("")),
           widgets::number_cell_of(looks ? static_cast<double>(key) : std::nan("")),
           widgets::words_cell_of(token), widgets::words_cell_of(further_keys(head))});
    }
  }
  return rows;
}

void QueryView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<QueryState>();
  const auto& query = context.session().selection.query;
  const auto model = static_cast<std::size_t>(context.session().selection.model);
  const std::string words =
      query ? "query " + with_token(*query, token_text(context, model, *query)) : "the last token";
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(words.c_str());
  tooltip("A click on a token in Text, or on a pair in a map, chooses another query");
  bool changed = false;
  for (const auto& [title, shown] :
       {std::pair("Pictures", &state.pictures), std::pair("Table", &state.table)}) {
    next_control(checkbox_width(title));
    changed |= ImGui::Checkbox(title, shown);
  }
  if (changed) context.set_state("Arrange the heads of a query", state);
  draw_tools(context);
}

// A click selects the head of the row and the pair.
void QueryView::draw_table(ViewContext& context, const Rows& rows) {
  auto state = context.state<QueryState>();
  table_.arrange(state.arrangement);
  const Selection& at = context.session().selection;
  const auto place = [&](int row) { return rows.places[static_cast<std::size_t>(row)]; };
  widgets::TableDraw options;
  options.version = rows_.version();
  options.hint = "Search, or a condition: weight>0.5";
  options.selected = [&](int row) {
    const Place one = place(row);
    return one.model == at.model && one.layer == at.layer && one.head == at.head;
  };
  options.menu = [&](int) { draw_menu_items(context); };
  const auto drawn = table_.draw(rows.spec, options);
  if (drawn.hovered >= 0) {
    const Place one = place(drawn.hovered);
    widgets::Hover hover;
    hover.model = one.model, hover.layer = one.layer, hover.head = one.head;
    hover.query = one.query, hover.key = one.key;
    context.point_at(hover);
  }
  if (drawn.clicked >= 0) {
    const Place one = place(drawn.clicked);
    if (one.model >= 0) select_head(context, one.model, one.layer, one.head);
    if (one.key) select_pair(context, one.query, *one.key);
  }
  if (!drawn.arranged) return;
  state.arrangement = table_.arrangement();
  context.set_state("Arrange the heads of a query", state, "arrange query");
}

// The head under the pointer is said, and a click selects it with the pair.
void QueryView::draw_one(ViewContext& context, const widgets::PlotSpec& plot,
                         widgets::PlotDraw options, const QueryAnswers& answers) {
  const auto own = static_cast<std::size_t>(&plot - plots_.value().data());
  const auto shown = with_pictures(answers);
  if (own >= shown.size()) return;
  const QueryResult& result = shown[own]->result;
  const std::int64_t model = place_of_model(context.session(), model_asked(*shown[own]));
  const auto head_at = [&](double y) {
    const auto row = static_cast<std::int64_t>(std::floor(y));
    return std::pair(row / result.heads, row % result.heads);
  };
  options.more_words = [&](widgets::PlotPointer at) {
    const auto [layer, head] = head_at(at.y);
    const auto key = static_cast<std::int64_t>(std::floor(at.x));
    const std::string token =
        result.stack == "cross" || model < 0
            ? ""
            : token_text(context, static_cast<std::size_t>(model), key, shown[own]->asked);
    return name_of_head(layer, head) + ", key " + with_token(key, token);
  };
  std::optional<std::size_t> own_tokens;
  if (model >= 0) own_tokens = static_cast<std::size_t>(model);
  const auto drawn = draw_figure(context, plot, std::move(options), own_tokens);
  if (!drawn.pointer || model < 0) return;
  const auto [layer, head] = head_at(drawn.pointer->y);
  const auto key = static_cast<std::int64_t>(std::floor(drawn.pointer->x));
  if (layer < 0 || layer >= result.layers || head < 0 || key < 0 || key >= result.keys) return;
  widgets::Hover hover;
  hover.model = model, hover.layer = layer, hover.head = head;
  hover.query = result.query, hover.key = key;
  context.point_at(hover);
  if (!drawn.clicked) return;
  select_head(context, model, layer, head);
  select_pair(context, result.query, key);
}

void QueryView::draw_pictures(ViewContext& context, const QueryAnswers& answers, float below) {
  const auto& plots = plots_.get(answers.key(context),
                                 [&] { return query_plots(answers, names_of(context.session())); });
  grid_.draw(plots, plots_.version(), {.old = answers.old, .below = below},
             [&](const widgets::PlotSpec& plot, widgets::PlotDraw options) {
               draw_one(context, plot, std::move(options), answers);
             });
}

void QueryView::draw_content(ViewContext& context) {
  fit_to_text(context);
  draw_controls(context);
  if (context.models() == 0) {
    return widgets::draw_empty("Where a token looks in every head will be here. Tick a model.");
  }
  draw_questions(context, kQuery);
  if (const auto& query = context.session().selection.query) {
    if (const std::string others = other_tokens_at(context, *query); !others.empty()) {
      widgets::draw_notes({others});
    }
  }
  const QueryAnswers answers = shown_answers(context, kQuery);
  if (answers.empty()) return;
  const auto state = context.state<QueryState>();
  if (!state.pictures && !state.table) return widgets::draw_empty("Tick Pictures or Table above.");
  const float room = ImGui::GetContentRegionAvail().y;
  const float below = !state.table ? 0 : state.pictures ? room * 0.45F : room;
  if (state.pictures) draw_pictures(context, answers, below);
  if (!state.table) return;
  std::string key = answers.key(context);
  for (std::size_t i = 0; i < context.models(); ++i) {  // the tokens' texts
    key += serials_of(context.of(kText, i).answer());
  }
  const Rows& rows = rows_.get(key, [&] { return rows_of(context, answers); });
  if (ImGui::BeginChild("table", {0, below}, ImGuiChildFlags_NavFlattened)) {
    const Dimmed dimmed(answers.old);
    draw_table(context, rows);
  }
  ImGui::EndChild();
}

}  // namespace phasescope::app
