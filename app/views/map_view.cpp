#include "app/views/map_view.h"

#include <implot.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/figures/mean_map.h"
#include "app/verbs/verb_tools.h"
#include "app/views/heads_view.h"
#include "app/views/intervene_view.h"
#include "app/views/plot_grid.h"
#include "formats/error.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::MapResult;
using widgets::AxisLink;
using widgets::MapSpec;
using widgets::PlotSpec;

// After the axes have rested so long, the region they show is asked for.
constexpr auto kRest = std::chrono::milliseconds(160);
constexpr int kCellStep = 64, kMostCells = 768;
// In lines of text: a map with less room than this has no curves beside it.
constexpr float kRoomForCurves = 18, kCurveHeight = 5, kCurveWidth = 5;
constexpr float kLeastMap = 15;  // of one among several
// Tokens around a pair that is gone to where all of the text is on show.
constexpr int64_t kNeighbourhood = 48;
// And the fewest that keys zoom to.
constexpr int64_t kLeastZoomed = 8;
// Above so many tokens none has room for its text.
constexpr double kMostNamed = 256;

int64_t whole(double value, int64_t tokens) {
  return std::clamp<int64_t>(static_cast<int64_t>(value), 0, tokens);
}

// The largest cell of each row: of the weights of a query the mean is one by its number of keys.
std::vector<float> largest_of_rows(const Answer<MapResult>& answer) {
  const Grid cells = grid_of(*protocol::find_tensor(answer.tensors, "map"));
  std::vector<float> largest(static_cast<std::size_t>(answer.result.height), std::nanf(""));
  auto cell = cells.values.begin();
  for (float& row : largest)
    for (std::int64_t n = 0; n < answer.result.width && cell != cells.values.end(); ++n, ++cell)
      if (std::isfinite(*cell) && !(row >= *cell)) row = *cell;
  return largest;
}

// The mean of each column of cells, or (upright) what each row of cells has, beside the map.
PlotSpec profile_plot(const Answer<MapResult>& answer, bool upright) {
  const MapResult& map = answer.result;
  const bool largest = upright && map.of == "weight";
  PlotSpec plot;
  plot.id = upright ? "by_query" : "by_key";
  plot.legend = false;
  (upright ? plot.x : plot.y).label = largest ? "largest" : "mean";
  (upright ? plot.y : plot.x).of = upright ? widgets::Coordinate::query : widgets::Coordinate::key;
  const auto* found =
      protocol::find_tensor(answer.tensors, upright ? "row_profile" : "column_profile");
  if (!found) return plot;
  const auto begin = static_cast<double>(upright ? map.row_begin : map.column_begin);
  const auto end = static_cast<double>(upright ? map.row_end : map.column_end);
  const std::vector<float> values =
      largest ? largest_of_rows(answer)
              : std::vector<float>(found->values<float>().begin(), found->values<float>().end());
  const double step = (end - begin) / static_cast<double>(std::max<std::size_t>(1, values.size()));
  widgets::Series series;
  series.width = 1.2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double at = begin + (static_cast<double>(i) + 0.5) * step;
    // Where the mask hides every pair there is no mean: the curve has a gap.
    const double value = std::isfinite(values[i]) ? values[i] : std::nan("");
    series.x.push_back(upright ? value : at);
    series.y.push_back(upright ? at : value);
  }
  plot.series.push_back(std::move(series));
  return plot;
}

std::string words_of_show(const std::string& show) {
  return show == "a" ? "A" : show == "both" ? "A | B" : "A | B | A-B";
}

// "rope L3H1", of an encoder-decoder with its stack; "rope mean of L3H1, L4H0".
std::string words_of(const Session& session, const MapView::Shown& shown) {
  const MapResult& map = shown.answer->result;
  const std::string name = short_name(session, map.model) + " ";
  if (!shown.heads.empty()) return name + "mean of " + shown.heads;
  return name + (map.stack.empty() ? "" : map.stack + ".") + name_of_head(map.layer, map.head) +
         (shown.text.empty() ? "" : " on " + shown.text);
}

// The heads of a model that are chosen in Heads, as a request has them.
std::vector<std::string> chosen_heads(const ViewContext& context, std::size_t model) {
  std::vector<std::string> heads;
  for (const ChosenHead& head : context.state<HeadsState>().chosen)
    if (head.model == context.session().models[model])
      heads.push_back(name_of_head(head.layer, head.head));
  return heads;
}

std::string in_a_row(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

// Tokens of a text as the asked model reads it; 0 before it has read it.
int64_t tokens_of(const QuestionOf<MapResult>& question, const TextInput& text) {
  const auto* answer = question.answer();
  const bool same = answer && answer->asked.text.serial() == text.words.serial() &&
                    answer->asked.params.value("length", int64_t{0}) == text.length;
  return same ? answer->result.tokens : 0;
}

// [begin, end) of a text of so many tokens; the whole of it where nothing of it is left.
std::optional<protocol::Range> range_of(int64_t begin, int64_t end, int64_t tokens) {
  if (tokens > 0) end = std::min(end, tokens);
  if (end <= begin) return std::nullopt;
  return protocol::Range{begin, end};
}

const Grid map_of(const Answer<MapResult>& answer) {
  return grid_of(*protocol::find_tensor(answer.tensors, "map"));
}

// Why A - B cannot be drawn: they were asked for differently, as while one is not there yet, or are
// not about the same tokens. Empty where it can.
std::string difference_obstacle(const MapState& state, const MapView::Shown& first,
                                const MapView::Shown& second) {
  const Answer<MapResult>&a = *first.answer, &b = *second.answer;
  if (first.text != second.text) return "A - B is not drawn: the two maps are of different texts.";
  Asked one = a.asked, other = b.asked;
  const bool own_head = state.b_layer >= 0;  // then the heads may differ, and both are to be there
  if (own_head) one.params.erase("head"), other.params.erase("head");
  if (!alike(one, other) || (own_head && (first.old || second.old)))
    return "A - B is drawn once both maps are there.";
  if (a.result.provenance.text_hash != b.result.provenance.text_hash)
    return "A - B is not drawn: the two models read the text as different tokens.";
  if (a.result.height != b.result.height || a.result.width != b.result.width)
    return "A - B is not drawn: the two maps are not of the same queries and keys.";
  return "";
}

std::string in_quotes(const std::string& token) {
  return token.empty() ? "" : " \"" + token + "\"";
}

// "enc.L3H1".
std::string head_in_stack(const std::string& stack, int64_t layer, int64_t head) {
  return (stack.empty() ? "" : stack + ".") + name_of_head(layer, head);
}

// A number that may be left to the program; true where it was changed.
bool draw_optional(const char* label, std::optional<double>& value, double now) {
  bool set = value.has_value();
  bool changed = ImGui::Checkbox((std::string("##set") + label).c_str(), &set);
  if (changed) value = set ? std::optional(now) : std::nullopt;
  ImGui::SameLine();
  ImGui::BeginDisabled(!set);
  double number = value.value_or(now);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 7);
  ImGui::InputDouble(label, &number, 0, 0, "%.4g", ImGuiInputTextFlags_CharsScientific);
  if (ImGui::IsItemDeactivatedAfterEdit() && set && std::isfinite(number))
    value = number, changed = true;
  ImGui::EndDisabled();
  return changed;
}

int64_t clamped_begin(int64_t middle, int64_t size, int64_t tokens) {
  return std::clamp<int64_t>(middle - size / 2, 0, std::max<int64_t>(0, tokens - size));
}

// Labels in the middle of the cells of [low, high], where `pixels` a cell are enough for them.
std::vector<widgets::AxisTick> ticks_of(const ViewContext& context, std::size_t model,
                                        const AxisLink& axis, float pixels, bool upright) {
  std::vector<widgets::AxisTick> ticks;
  const double span = axis.high - axis.low;
  if (span > kMostNamed || pixels / span < (upright ? ImGui::GetFontSize() : 6.0)) return ticks;
  float widest = 0;
  for (auto place = static_cast<int64_t>(std::floor(axis.low)); place < axis.high; ++place) {
    const std::string token = token_text(context, model, place);
    if (token.empty()) continue;
    ticks.push_back({static_cast<double>(place) + 0.5, token});
    widest = std::max(widest, ImGui::CalcTextSize(token.c_str()).x);
  }
  if (!upright && widest + 3 > pixels / static_cast<float>(span)) ticks.clear();
  return ticks;
}

}  // namespace

std::optional<std::pair<int64_t, int64_t>> pair_in(const std::string& words) {
  std::vector<int64_t> numbers;
  const char *at = words.data(), *end = words.data() + words.size();
  while (at < end) {
    if (*at == ' ' || *at == ',' || *at == ';') {
      ++at;
      continue;
    }
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || numbers.size() == 2) return std::nullopt;
    numbers.push_back(value), at = next;
  }
  if (numbers.empty()) return std::nullopt;
  return std::pair{numbers.front(), numbers.back()};
}

Region region_around(const Region& now, int64_t query, int64_t key, int64_t tokens) {
  const auto size = [&](int64_t begin, int64_t end) {
    return std::min(tokens, end > begin ? end - begin : kNeighbourhood);
  };
  const int64_t rows = size(now.row_begin, now.row_end), cols = size(now.col_begin, now.col_end);
  const int64_t row = clamped_begin(query, rows, tokens), col = clamped_begin(key, cols, tokens);
  return {row, row + rows, col, col + cols};
}

Region zoomed(const Region& now, double by, const Selection& selection, int64_t queries,
              int64_t keys) {
  const auto stretched = [by](int64_t begin, int64_t end, std::optional<int64_t> around,
                              int64_t all) {
    if (end <= begin) begin = 0, end = all;
    const auto wanted = std::llround(static_cast<double>(end - begin) * by);
    const int64_t size = std::clamp<int64_t>(wanted, std::min(kLeastZoomed, all), all);
    const int64_t first = clamped_begin(around.value_or((begin + end) / 2), size, all);
    return std::pair{first, first + size};
  };
  const auto rows = stretched(now.row_begin, now.row_end, selection.query, queries);
  const auto columns = stretched(now.col_begin, now.col_end, selection.key, keys);
  const Region region{rows.first, rows.second, columns.first, columns.second};
  return region == Region{0, queries, 0, keys} ? Region{} : region;
}

std::string MapView::help_text() const {
  return "Queries from top to bottom, keys from left to right. The wheel zooms, dragging moves, a "
         "double click shows all again (Alt+=, a pair typed above, Alt+- and Ctrl+0 do it by "
         "keys); zoomed in far enough, each cell is one pair and its value "
         "is exact. Grey is the masked triangle: the query cannot see those keys. Click marks a "
         "pair in all views. The curves are of the pairs that are shown: the mean of each key "
         "below; at the right the largest weight of each query, or its mean score. Weights have "
         "a log scale by themselves where what they show is a line of a few cells. A is the "
         "selected head, B any head of any open model, on the same text or another one.";
}

void MapView::add_commands(std::vector<Command>& list) const {
  list.push_back({"map.all", "Map: show all queries and keys", "Undo every zoom",
                  ImGuiMod_Ctrl | ImGuiKey_0,
                  [](ViewContext& context) { show_region(context, {}); }});
  struct Zoom {
    const char *id, *title, *help;
    ImGuiKey key;
    double by;
  };
  for (const Zoom zoom :
       {Zoom{"map.closer", "Map: zoom in on the selected pair", "Half as many queries and keys",
             ImGuiKey_Equal, 0.5},
        Zoom{"map.wider", "Map: zoom out", "Twice as many queries and keys", ImGuiKey_Minus, 2}})
    list.push_back({zoom.id, zoom.title, zoom.help, ImGuiMod_Alt | zoom.key,
                    [by = zoom.by](ViewContext& context) {
                      const Session& session = context.session();
                      const auto* map = context.requests.of(kMap, selected_model(session)).answer();
                      if (!map) return;
                      show_region(context, zoomed(session.region, by, session.selection,
                                                  map->result.tokens, map->result.keys));
                    }});
  struct Choice {
    const char *word, *title;
    ImGuiKey key;
  };
  for (const Choice of : {Choice{"weight", "Map: weights", ImGuiKey_W},
                          Choice{"score", "Map: scores", ImGuiKey_S},
                          Choice{"content", "Map: content scores", ImGuiKey_C},
                          Choice{"positional", "Map: positional terms", ImGuiKey_P}})
    list.push_back({std::string("map.") + of.word, of.title, "What the attention map shows",
                    ImGuiMod_Alt | of.key,
                    [word = std::string(of.word)](ViewContext& context) {
                      auto state = context.state<MapState>();
                      state.of = word;
                      context.set_state("Show " + word, state);
                    }});
  for (const Choice show : {Choice{"a", "Map: the selected model alone", ImGuiKey_A},
                            Choice{"both", "Map: two models side by side", ImGuiKey_B},
                            Choice{"difference", "Map: A, B and their difference", ImGuiKey_D}})
    list.push_back({std::string("map.show_") + show.word, show.title, "Which maps are shown",
                    ImGuiMod_Alt | show.key,
                    [word = std::string(show.word)](ViewContext& context) {
                      auto state = context.state<MapState>();
                      state.show = word;
                      context.set_state("Compare maps", state);
                    }});
}

std::vector<Asked> MapView::asked_of_maps(const ViewContext& context) const {
  std::vector<Asked> asked;
  for (const Side& side : sides(context))
    for (const auto* question : questions_of(context, side)) asked.push_back(question->asked());
  return asked;
}

std::string MapView::command_line(const ViewContext& context) const {
  return command_of<protocol::MapRequest>(asked_of_maps(context));
}

// A, and B where it is shown and there is one.
std::vector<MapView::Side> MapView::sides(const ViewContext& context) const {
  const Session& session = context.session();
  if (session.models.empty()) return {};
  const auto state = context.state<MapState>();
  const Selection& at = session.selection;
  const std::size_t a = std::min(static_cast<std::size_t>(at.model), session.models.size() - 1);
  std::vector<Side> sides{{a, head_in_stack(at.stack, at.layer, at.head), false, ""}};
  sides[0].text = context.text_for(session.models[a]);
  if (state.mean) {
    // Heads of another stack than is on show are not told apart in what is chosen.
    sides[0].heads = chosen_heads(context, a);
    for (std::string& head : sides[0].heads)
      if (!at.stack.empty()) head = at.stack + "." + head;
    if (sides[0].heads.size() > 1) return sides;
    sides[0].heads.clear();
  }
  if (state.show == "a") return sides;
  const auto named = std::ranges::find(session.models, state.b);
  std::size_t b = a == 0 ? 1 : 0;
  if (named != session.models.end()) b = static_cast<std::size_t>(named - session.models.begin());
  if (b >= session.models.size()) b = a;
  Side side{b, sides[0].head, b == a, ""};
  side.text = context.text_for(session.models[b]);
  // A model that reads no words has seeded ids, whatever the text is.
  if (const KeptText& own = text_of_b(context); !own.words.empty() && !side.text.words.empty()) {
    side.text.name = own.name, side.text.words = own.words;
    side.text_name = name_of_text(own.name, own.words);
  }
  if (state.b_layer >= 0)
    side.head = head_in_stack(state.b_stack, state.b_layer, state.b_head);
  else
    side.obstacle = head_obstacle(context, b);
  if (b != a || side.head != sides[0].head || !side.text_name.empty())
    sides.push_back(std::move(side));
  return sides;
}

// Read once for each one that is chosen; without words where it cannot be read.
const KeptText& MapView::text_of_b(const ViewContext& context) const {
  const std::string id = context.state<MapState>().b_text;
  return text_of_b_.get(id, [&]() -> KeptText {
    if (id.empty()) return {};
    try {
      return text_of_id(context.session(), id);
    } catch (const formats::Error& error) {
      context.window.say(error.full_text(), true);
      return {};
    }
  });
}

QuestionOf<MapResult>& MapView::question_of(const ViewContext& context, const Side& side) const {
  return context.of(side.beside ? kMapBeside : kMap, side.model);
}

// Of each head that it is the mean of; of the one head that it is; none of what cannot be shown.
std::vector<QuestionOf<MapResult>*> MapView::questions_of(const ViewContext& context,
                                                          const Side& side) const {
  if (!side.obstacle.empty()) return {};
  if (side.heads.empty()) return {&question_of(context, side)};
  std::vector<QuestionOf<MapResult>*> questions;
  for (const std::string& head : side.heads)
    questions.push_back(
        &context.requests.of(kMapOfOne, context.session().models[side.model] + " " + head));
  return questions;
}

bool MapView::ready(const ViewContext& context) const {
  context.models_known();
  return std::ranges::all_of(sides(context),
                             [&](const Side& side) { return context.model_known(side.model); });
}

void MapView::ask(ViewContext& context) {
  const auto state = context.state<MapState>();
  const Region& region = context.session().region;
  for (const Side& side : sides(context)) {
    const auto questions = questions_of(context, side);
    for (std::size_t i = 0; i < questions.size(); ++i) {
      const std::string& model = context.session().models[side.model];
      const int64_t tokens = tokens_of(*questions[i], side.text);
      protocol::MapRequest request{.model = model};
      request.head = side.heads.empty() ? side.head : side.heads[i];
      request.of = state.of, request.pool = state.pool;
      request.size = {cells_, cells_};
      request.rows = range_of(region.row_begin, region.row_end, tokens);
      request.cols = range_of(region.col_begin, region.col_end, tokens);
      set_text(request.reading, side.text);
      context.requests.ask(*questions[i], request, side.text.words);
    }
  }
  // For the axes: the question that the text's own view asks.
  if (context.models_known()) ask_for_tokens(context);
}

// None of a model without the selected head, whose last answer is of another one.
std::vector<MapView::Shown> MapView::maps_shown(const ViewContext& context) const {
  std::vector<Shown> maps;
  for (const Side& side : sides(context)) {
    if (!side.obstacle.empty()) continue;
    if (!side.heads.empty()) {
      if (auto mean = mean_shown(context, side)) maps.push_back(*mean);
      continue;
    }
    const auto& question = question_of(context, side);
    const auto* answer = question.answer();
    if (answer && protocol::find_tensor(answer->tensors, "map"))
      maps.push_back({answer, side.model, !question.answers_now(), "", side.text_name});
  }
  return maps;
}

// Made once the maps of all its heads are there; until then the last one stays, as what it is: old.
std::optional<MapView::Shown> MapView::mean_shown(const ViewContext& context,
                                                  const Side& side) const {
  const auto questions = questions_of(context, side);
  const bool all = std::ranges::all_of(questions, [](const auto* question) {
    return question->answers_now() && protocol::find_tensor(question->answer()->tensors, "map");
  });
  if (all) {
    std::string key;
    for (const auto* question : questions) key += serials_of(question->answer());
    mean_.get(key, [&] {
      std::vector<AnsweredMap> maps;
      for (const auto* question : questions)
        maps.push_back({question->answer()->result, question->answer()->tensors});
      AnsweredMap mean = mean_map(maps);
      const Asked& asked = questions.front()->asked();
      return MapAnswer{std::move(mean.result), std::move(mean.tensors), asked, next_serial()};
    });
  }
  if (mean_.version() == 0) return std::nullopt;
  const bool other_model = mean_.value().result.model != context.session().models[side.model];
  if (other_model) return std::nullopt;
  return Shown{&mean_.value(), side.model, !all, in_a_row(side.heads)};
}

bool MapView::Scene::old(std::size_t plot) const {
  if (plot < maps.size()) return maps[plot].old;
  return maps[0].old || maps[1].old;
}

// Of A alone as it was chosen; of two maps one look that both have.
MapLook MapView::look_of(const ViewContext& context, const std::vector<Shown>& maps) const {
  const MapLook look = context.state<MapState>().look;
  if (maps.size() < 2) return look;
  const ModelNames names = names_of(context.session());
  const auto spec = [&](const Shown& one) {
    return *attention_map_figure(one.answer->result, map_of(*one.answer), names).map;
  };
  return common_look(look, spec(maps[0]), spec(maps[1]));
}

PlotSpec MapView::plot_of(const ViewContext& context, const Shown& shown,
                          const MapLook& look) const {
  const MapAnswer& answer = *shown.answer;
  PlotSpec plot = attention_map_figure(answer.result, map_of(answer), names_of(context.session()),
                                       sink_of(answer.tensors));
  if (!shown.heads.empty()) {
    plot.id = "map_" + names_of(context.session()).file_name(answer.result.model) + "_mean";
    plot.title = words_of(context.session(), shown) + ": " + answer.result.of;
  }
  apply_look(*plot.map, look);
  std::string& note = plot.notes.back() = widgets::scale_note(*plot.map);
  if (const std::string clipped = clipping_note(*plot.map, look); !clipped.empty())
    note += "; " + clipped;
  const protocol::Provenance& made = answer.result.provenance;
  if (!made.kernel.empty()) note += "; computed by " + made.kernel + ", " + made.dtype;
  return plot;
}

std::vector<Saved> MapView::saved(ViewContext& context) {
  std::vector<Saved> all;
  const ModelNames names = names_of(context.session());
  const std::vector<Shown> maps = maps_shown(context);
  for (const Shown& shown : maps) {
    const MapAnswer& answer = *shown.answer;
    Output output{.result = protocol::to_json_form(answer.result),
                  .provenance = provenance_of(answer.result)};
    output.figures = {plot_of(context, shown, look_of(context, maps))};
    std::string folder = names.file_name(answer.result.model);
    if (!all.empty() && all[0].folder == folder)
      folder += "_" + name_of_head(answer.result.layer, answer.result.head) +
                (shown.text.empty() ? "" : "_other_text");
    std::vector<Asked> asked{answer.asked};
    if (!shown.heads.empty()) asked = asked_of_maps(context);
    all.push_back({std::move(folder), std::move(output), command_of<protocol::MapRequest>(asked)});
  }
  if (context.state<MapState>().show != "difference" || maps.size() < 2) return all;
  const MapAnswer &a = *maps[0].answer, &b = *maps[1].answer;
  if (!difference_obstacle(context.state<MapState>(), maps[0], maps[1]).empty()) return all;
  Output output{.result = {{"a", all[0].output.result}, {"b", all[1].output.result}}};
  for (const Saved& one : {all[0], all[1]})
    for (const nlohmann::json& made : one.output.provenance) output.provenance.push_back(made);
  output.figures = {map_difference_figure(a.result, map_of(a), b.result, map_of(b), names)};
  all.push_back({"difference", std::move(output), all[0].command + " && " + all[1].command});
  return all;
}

// What is drawn, which is not yet what is selected while its answer is on its way.
void MapView::draw_title(ViewContext& context) {
  const Selection& at = context.session().selection;
  const std::string model = selected_model(context.session());
  const auto maps = maps_shown(context);
  std::string words = short_name(context.session(), model) + " " + name_of_head(at.layer, at.head);
  if (!maps.empty()) words = words_of(context.session(), maps[0]);
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(words.c_str());
  ImGui::PopFont();
  tooltip(model + "\n" +
          (at.head < 0 ? "Mean of all heads of the layer" : "Alt and the arrow keys change it"));
}

// What the colours mean; the button opens the choices.
bool MapView::draw_colors(MapState& state) {
  if (ImGui::Button("Colours")) ImGui::OpenPopup("colours");
  tooltip("Scale and range of the colours, and the shape of the cells");
  if (!ImGui::BeginPopup("colours")) return false;
  const MapSpec* map = pictures_[0].plot.version() > 0 ? &*pictures_[0].plot.value().map : nullptr;
  bool changed = false;
  MapLook& look = state.look;
  const float width = ImGui::GetFontSize() * 8;
  if (state.of == "weight") {
    changed |= draw_choice("scale", look.scale, {"by itself", "linear", "log"}, width);
    tooltip("By itself: log where fewer than one cell in ten reaches a tenth of the largest");
    ImGui::SetNextItemWidth(width);
    changed |= ImGui::SliderInt("decades of a log scale", &look.decades, 1, 12);
  }
  changed |= draw_optional("lower end", look.low, map ? map->range.low : 0);
  changed |= draw_optional("upper end", look.high, map ? map->range.high : 1);
  changed |= ImGui::Checkbox("key 0 left out", &look.leave_out_first);
  tooltip("The range is fitted to the other keys: key 0 takes most of the weight of many heads");
  changed |= ImGui::Checkbox("square cells", &state.square);
  if (map) {
    ImGui::TextColored(widgets::palette().quiet, "now %s", widgets::scale_text(*map).c_str());
    if (const std::string clipped = clipping_note(*map, look); !clipped.empty())
      ImGui::TextColored(widgets::palette().warn, "%s", clipped.c_str());
  }
  if (ImGui::Button("As at first")) look = {}, state.square = true, changed = true;
  ImGui::EndPopup();
  return changed;
}

// Offered while there is something to take a mean of.
bool MapView::draw_mean(const ViewContext& context, MapState& state) {
  const auto all = sides(context);
  const std::size_t chosen = all.empty() ? 0 : chosen_heads(context, all[0].model).size();
  if (chosen < 2) return false;
  const std::string label = "Mean of " + std::to_string(chosen) + " chosen";
  next_control(checkbox_width(label.c_str()));
  const bool changed = ImGui::Checkbox(label.c_str(), &state.mean);
  tooltip(
      "The mean of the maps of the heads that are chosen in Heads with Ctrl and a click. Cells "
      "of several pairs are pooled in each head first.");
  return changed;
}

// A layer and a head of B; "same head" follows A.
bool MapView::draw_head_of_b(const ViewContext& context, MapState& state) {
  const auto all = sides(context);
  const std::size_t model = all.size() > 1 ? all[1].model : all[0].model;
  const auto* report = context.info(context.session().models[model]);
  if (!report) return false;
  std::vector<std::string> layers{"same head"}, heads{"mean"};
  for (int64_t i = 0; i < report->model.layers; ++i) layers.push_back("L" + std::to_string(i));
  for (int64_t i = 0; i < report->model.heads; ++i) heads.push_back("H" + std::to_string(i));
  const auto word_of = [](const std::vector<std::string>& words, int64_t value) {
    return words[std::min(words.size() - 1, static_cast<std::size_t>(value + 1))];
  };
  std::string layer = word_of(layers, state.b_layer), head = word_of(heads, state.b_head);
  bool changed = false;
  if (draw_choice("##layer of B", layer, layers)) {
    state.b_layer = std::ranges::find(layers, layer) - layers.begin() - 1;
    changed = true;
  }
  if (state.b_layer < 0) return changed;
  next_control(5 * ImGui::GetFontSize());
  if (draw_choice("##head of B", head, heads)) {
    state.b_head = std::ranges::find(heads, head) - heads.begin() - 1;
    changed = true;
  }
  const auto* answer = all.size() > 1 ? question_of(context, all[1]).answer() : nullptr;
  if (!answer || answer->result.stack.empty()) return changed;
  ImGui::SameLine();
  std::string stack = state.b_stack.empty() ? "dec" : state.b_stack;
  if (draw_choice("##stack of B", stack, {"dec", "enc", "cross"}))
    state.b_stack = stack, changed = true;
  return changed;
}

// What B reads: the same as A, or a text that was read before.
bool MapView::draw_text_of_b(const ViewContext& context, MapState& state) {
  constexpr const char* kSameText = "same text";
  const KeptText& now = text_of_b(context);
  const std::string words = now.words.empty() ? kSameText : name_of_text(now.name, now.words);
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 9);
  const bool open = ImGui::BeginCombo("##text of B", words.c_str());
  tooltip("What B reads: the same text, or one that was read before (Text)");
  if (!open) return false;
  bool changed = ImGui::Selectable(kSameText, state.b_text.empty());
  if (changed) state.b_text.clear();
  for (const KeptText& text : other_texts(context.session())) {
    const std::string id = id_of_text(text);
    ImGui::PushID(id.c_str());
    if (ImGui::Selectable(name_of_text(text.name, text.words).c_str(), id == state.b_text))
      state.b_text = id, changed = true;
    tooltip(text.name);
    ImGui::PopID();
  }
  ImGui::EndCombo();
  return changed;
}

// Which model and head B is, and what it reads.
bool MapView::draw_b(const ViewContext& context, MapState& state) {
  const auto all = sides(context);
  if (all.empty()) return false;
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("B");
  ImGui::SameLine();
  const Session& session = context.session();
  const std::size_t now = all.size() > 1 ? all[1].model : all[0].model;
  bool changed = false;
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 9);
  if (ImGui::BeginCombo("##B", short_name(session, session.models[now]).c_str())) {
    for (std::size_t i = 0; i < session.models.size(); ++i) {
      if (ImGui::Selectable(short_name(session, session.models[i]).c_str(), i == now))
        state.b = session.models[i], changed = true;
      tooltip(session.models[i]);
    }
    ImGui::EndCombo();
  }
  next_control(7 * ImGui::GetFontSize());
  changed |= draw_head_of_b(context, state);
  next_control(9 * ImGui::GetFontSize());
  changed |= draw_text_of_b(context, state);
  if (all.size() < 2) {
    ImGui::SameLine();
    ImGui::TextColored(widgets::palette().quiet, "B is A: choose another head or text");
  }
  return changed;
}

void MapView::draw_goto(ViewContext& context) {
  ImGui::SetNextItemWidth(ImGui::GetFontSize() * 5);
  const bool entered = ImGui::InputTextWithHint("##goto", "query, key", &goto_,
                                                ImGuiInputTextFlags_EnterReturnsTrue);
  tooltip("Go to a pair: 12, 3");
  if (!entered || applied_tokens_ < 1) return;
  const auto pair = pair_in(goto_);
  if (!pair) return context.window.say("A pair is two numbers: 12, 3");
  const int64_t last = applied_tokens_ - 1;
  const int64_t query = std::min(pair->first, last), key = std::min(pair->second, last);
  select_pair(context, query, key);
  show_region(context, region_around(context.session().region, query, key, applied_tokens_));
  goto_.clear();
}

void MapView::draw_controls(ViewContext& context) {
  auto state = context.state<MapState>();
  draw_title(context);
  next_control(7 * ImGui::GetFontSize());
  bool changed = draw_choice("##of", state.of, {"weight", "score", "content", "positional"});
  tooltip(
      "Weights are after the softmax, scores before it; content and positional term are the "
      "parts of the score");
  next_control(5 * ImGui::GetFontSize());
  changed |= draw_choice("##pool", state.pool, {"max", "mean"});
  tooltip("How the pairs of a cell become one value while a cell holds several");
  next_control(7 * ImGui::GetFontSize());
  std::string shown = words_of_show(state.show);
  if (draw_choice("##show", shown, {"A", "A | B", "A | B | A-B"})) {
    state.show = shown == "A" ? "a" : shown == "A | B" ? "both" : "difference";
    changed = true;
  }
  tooltip("A is the selected head, B any head of any open model, on any text");
  changed |= draw_mean(context, state);
  next_control(5 * ImGui::GetFontSize());
  changed |= draw_colors(state);
  next_control(5 * ImGui::GetFontSize());
  draw_goto(context);
  draw_tools(context, Bar::goes_on);
  if (state.show != "a") changed |= draw_b(context, state);
  draw_openings(context);
  if (changed) context.set_state("Change the map", state, "map");
}

// Sets the axes where the session's region is another one than they were last set to.
void MapView::follow_session(ViewContext& context, int64_t tokens) {
  const Region& now = context.session().region;
  if (applied_tokens_ == tokens && now == applied_) return;
  const auto end = [&](int64_t value) { return static_cast<double>(value > 0 ? value : tokens); };
  y_ = {static_cast<double>(now.row_begin), end(now.row_end)};
  x_ = {static_cast<double>(now.col_begin), end(now.col_end)};
  seen_x_ = x_, seen_y_ = y_;
  applied_ = now, applied_tokens_ = tokens;
  moving_ = false;
}

// Once the axes rest, their region becomes the session's, and with it the next question.
void MapView::settle(ViewContext& context, int64_t tokens) {
  const auto now = std::chrono::steady_clock::now();
  const auto differs = [](const AxisLink& a, const AxisLink& b) {
    return std::abs(a.low - b.low) > 1e-6 || std::abs(a.high - b.high) > 1e-6;
  };
  if (differs(x_, seen_x_) || differs(y_, seen_y_)) {
    seen_x_ = x_, seen_y_ = y_;
    moved_at_ = now, moving_ = true;
  }
  context.window.moving = context.window.moving || moving_;
  if (!moving_ || now - moved_at_ < kRest) return;
  moving_ = false;
  int64_t r0 = whole(std::floor(y_.low), tokens), r1 = whole(std::ceil(y_.high), tokens);
  int64_t c0 = whole(std::floor(x_.low), tokens), c1 = whole(std::ceil(x_.high), tokens);
  if (r1 <= r0 || c1 <= c0) return;
  if (r0 == 0 && c0 == 0 && r1 == tokens && c1 == tokens) r1 = c1 = 0;
  show_region(context, {r0, r1, c0, c1});
  applied_ = context.session().region;  // the axes stay as the hand left them
}

double MapView::ratio() const {
  const double rows = y_.high - y_.low;
  return rows > 0 ? (x_.high - x_.low) / rows : 1;
}

// The texts of the tokens where each has room for its own, by the size of the axes in the frame
// before.
void MapView::set_token_ticks(const ViewContext& context, Picture& picture,
                              std::size_t model) const {
  picture.x_ticks = ticks_of(context, model, x_, picture.axes.x, false);
  picture.y_ticks = ticks_of(context, model, y_, picture.axes.y, true);
}

void MapView::draw_one(ViewContext& context, const char* name, const PlotSpec& plot,
                       Picture& picture, ImVec2 room, std::size_t model, bool alone) {
  if (picture.texture_version != picture.plot.version()) {
    picture.texture.set_values(plot.map->rows, plot.map->cols, plot.map->values);
    picture.texture_version = picture.plot.version();
  }
  set_token_ticks(context, picture, model);
  widgets::PlotDraw options;
  options.size = room;
  if (context.state<MapState>().square) options.size = squared(ratio(), room, picture.labels);
  options.texture = &picture.texture;
  options.link_x = &x_, options.link_y = &y_;
  options.notes = false, options.color_scale = false, options.axis_labels = alone;
  if (!picture.x_ticks.empty()) options.x_ticks = &picture.x_ticks;
  if (!picture.y_ticks.empty()) options.y_ticks = &picture.y_ticks;
  options.more_words = [&](widgets::PlotPointer at) {
    const auto query = static_cast<int64_t>(std::floor(at.y));
    const auto key = static_cast<int64_t>(std::floor(at.x));
    const std::string of_query = token_text(context, model, query);
    if (of_query.empty()) return std::string();
    return "query" + in_quotes(of_query) + ", key" + in_quotes(token_text(context, model, key));
  };
  options.menu = [&] {
    draw_intervention_menu(context);
    ImGui::Separator();
    draw_menu_items(context);
  };
  const Selection& at = context.session().selection;
  if (at.query) options.mark_y = static_cast<double>(*at.query) + 0.5;
  if (at.key) options.mark_x = static_cast<double>(*at.key) + 0.5;
  ImGui::PushID(name);
  const auto drawn = draw_figure(context, plot, options);
  ImGui::PopID();
  picture.axes = drawn.plot_size;
  picture.labels = {options.size.x - drawn.plot_size.x, options.size.y - drawn.plot_size.y};
  if (drawn.pointer) pointer_text_ = widgets::cell_text(*plot.map, *drawn.pointer);
  if (drawn.clicked && drawn.pointer)
    select_pair(context, static_cast<int64_t>(std::floor(drawn.pointer->y)),
                static_cast<int64_t>(std::floor(drawn.pointer->x)));
  if (drawn.double_clicked) show_region(context, {}), applied_tokens_ = 0;
  const int wanted = std::clamp(
      static_cast<int>(std::max(drawn.plot_size.x, drawn.plot_size.y)) / kCellStep * kCellStep,
      2 * kCellStep, kMostCells);
  if (std::abs(wanted - cells_) > kCellStep) {
    cells_ = wanted;
    ask(context);
  }
}

// The maps on show with their pictures: A, B, and A - B where the two can be subtracted.
MapView::Scene MapView::scene_of(ViewContext& context) {
  Scene scene;
  scene.maps = maps_shown(context);
  const auto state = context.state<MapState>();
  std::string key = names_key(context) + protocol::to_json_form(state.look).dump() + "/";
  for (const Shown& one : scene.maps) key += serials_of(one.answer) + one.heads;
  const MapLook& look = look_.get(key, [&] { return look_of(context, scene.maps); });
  for (std::size_t i = 0; i < scene.maps.size(); ++i) {
    scene.plots.push_back(
        &pictures_[i].plot.get(key, [&] { return plot_of(context, scene.maps[i], look); }));
  }
  if (state.show != "difference" || scene.maps.size() < 2) return scene;
  const MapAnswer &a = *scene.maps[0].answer, &b = *scene.maps[1].answer;
  scene.difference = difference_obstacle(state, scene.maps[0], scene.maps[1]).empty();
  if (scene.difference)
    scene.plots.push_back(&pictures_[2].plot.get(key, [&] {
      return map_difference_figure(a.result, map_of(a), b.result, map_of(b),
                                   names_of(context.session()));
    }));
  return scene;
}

// One map with its scale, and the curves where there is room for them.
void MapView::draw_single(ViewContext& context, const Scene& scene, ImVec2 room) {
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const ImVec2 gap = ImGui::GetStyle().ItemSpacing;
  const bool below = room.y > line * kRoomForCurves, beside = below && room.x > line * 16;
  const float low = below ? line * kCurveHeight + gap.y : 0;
  const float side = beside ? line * kCurveWidth + gap.x : 0;
  ImVec2 size{room.x - widgets::color_scale_width() - gap.x - side, room.y - low};
  if (context.state<MapState>().square) size = squared(ratio(), size, pictures_[0].labels);
  const MapAnswer& answer = *scene.maps[0].answer;
  const auto& curves = profiles_.get(serials_of(&answer), [&] {
    return std::array<PlotSpec, 2>{profile_plot(answer, false), profile_plot(answer, true)};
  });
  const Dimmed dimmed(scene.old(0));
  widgets::PlotDraw options;
  options.notes = false;
  options.version = profiles_.version();
  ImGui::BeginGroup();
  if (ImPlot::BeginAlignedPlots("##aligned")) {
    draw_one(context, "a", *scene.plots[0], pictures_[0], size, scene.maps[0].model, true);
    options.link_x = &x_;
    options.size = {size.x, low - gap.y};
    if (below) draw_figure(context, curves[0], options);
    ImPlot::EndAlignedPlots();
  }
  ImGui::EndGroup();
  ImGui::SameLine();
  widgets::draw_color_scale(*scene.plots[0]->map, size.y - ImGui::GetFontSize() * 3);
  if (!beside) return;
  ImGui::SameLine();
  options.link_x = nullptr, options.link_y = &y_;
  options.size = {side - gap.x, size.y};
  options.downward = true, options.y_tick_labels = false;
  draw_figure(context, curves[1], options);
}

// As many in a row as leave each the most room; where that is too little to see anything, they are
// larger than the room and scrolled to.
MapView::Places MapView::places_of(int count, ImVec2 room) const {
  Places best;
  const ImVec2 gap = ImGui::GetStyle().ItemSpacing;
  float largest = -1;
  for (int columns = 1; columns <= count; ++columns) {
    const int rows = (count + columns - 1) / columns;
    const ImVec2 size{
        room.x / static_cast<float>(columns) - gap.x,
        room.y / static_cast<float>(rows) - ImGui::GetTextLineHeightWithSpacing() - gap.y};
    const ImVec2 axes{size.x - widgets::color_scale_width(), size.y};
    const float side =
        std::min(axes.x / static_cast<float>(std::clamp(ratio(), 0.125, 8.0)), axes.y);
    if (side > largest) largest = side, best = {columns, size};
  }
  const float least = kLeastMap * ImGui::GetFontSize();
  if (largest >= least) return best;
  const float wide = least + widgets::color_scale_width() + gap.x;
  best.columns = std::clamp(static_cast<int>(room.x / wide), 1, count);
  best.size = {room.x / static_cast<float>(best.columns) - gap.x, least};
  return best;
}

void MapView::draw_side_by_side(ViewContext& context, const Scene& scene, ImVec2 room) {
  const auto count = static_cast<int>(scene.plots.size());
  const Places places = places_of(count, room);
  const float scale = widgets::color_scale_width() + ImGui::GetStyle().ItemSpacing.x;
  for (int i = 0; i < count; ++i) {
    const auto n = static_cast<std::size_t>(i);
    const bool difference = scene.difference && i + 1 == count;
    if (i % places.columns != 0) ImGui::SameLine();
    ImGui::BeginGroup();
    const MapResult* map = difference ? nullptr : &scene.maps[n].answer->result;
    const std::string title =
        (i == 0 ? "A: " : "B: ") + (map ? words_of(context.session(), scene.maps[n]) : "");
    ImGui::TextUnformatted(map ? title.c_str() : "A - B");
    if (map) tooltip(map->model);
    const char* name = difference ? "difference" : i == 0 ? "a" : "b";
    Picture& picture = pictures_[difference ? 2 : n];
    const ImVec2 axes{places.size.x - scale, places.size.y};
    {
      const Dimmed dimmed(scene.old(n));
      // The tokens that are known are those of the session's text.
      const Shown& shown = scene.maps[difference ? 0 : n];
      draw_one(context, name, *scene.plots[n], picture, axes,
               shown.text.empty() ? shown.model : context.models(), false);
      ImGui::SameLine();
      widgets::draw_color_scale(*scene.plots[n]->map, std::max(40.0F, picture.axes.y));
    }
    ImGui::EndGroup();
  }
}

// Why there is no A - B, where it is wanted.
void MapView::draw_obstacle(ViewContext& context, const Scene& scene) {
  const bool wanted = context.state<MapState>().show == "difference" && scene.maps.size() == 2;
  if (!wanted || scene.difference) return;
  const std::string why =
      difference_obstacle(context.state<MapState>(), scene.maps[0], scene.maps[1]);
  ImGui::TextWrapped("%s", why.c_str());
}

void MapView::draw_maps(ViewContext& context) {
  const Scene scene = scene_of(context);
  if (scene.maps.empty()) return;
  const int64_t tokens = scene.maps[0].answer->result.tokens;
  follow_session(context, tokens);
  draw_obstacle(context, scene);
  const auto& notes = scene.plots.front()->notes;
  ImVec2 room = ImGui::GetContentRegionAvail();
  room.y -= ImGui::GetTextLineHeightWithSpacing() + widgets::notes_height(notes, room.x) +
            ImGui::GetStyle().ItemSpacing.y * 2;
  room.y = std::max(room.y, 80.0F);
  pointer_text_.clear();
  if (scene.plots.size() == 1)
    draw_single(context, scene, room);
  else
    draw_side_by_side(context, scene, room);
  draw_selection(context);
  widgets::draw_notes(notes);
  settle(context, tokens);
}

// One line: what is under the mouse, or the marked pair with its tokens.
void MapView::draw_selection(ViewContext& context) {
  const Selection& at = context.session().selection;
  if (!pointer_text_.empty()) {
    ImGui::TextUnformatted(pointer_text_.c_str());
  } else if (at.query) {
    const auto model = static_cast<std::size_t>(at.model);
    std::string words =
        "query " + std::to_string(*at.query) + in_quotes(token_text(context, model, *at.query));
    if (at.key)
      words += ", key " + std::to_string(*at.key) + in_quotes(token_text(context, model, *at.key));
    ImGui::TextUnformatted(words.c_str());
  } else {
    ImGui::TextColored(widgets::palette().quiet, "wheel: zoom   drag: move   double click: all");
  }
}

void MapView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0)
    return widgets::draw_empty("The map of a head will be here. Tick a model, pick a head.");
  for (const Side& side : sides(context)) {
    for (auto* question : questions_of(context, side))
      draw_question(context, *question,
                    short_name(context.session(), context.session().models[side.model]));
    if (!side.obstacle.empty()) ImGui::TextWrapped("%s", side.obstacle.c_str());
  }
  draw_maps(context);
}

}  // namespace phasescope::app
