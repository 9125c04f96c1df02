#include "app/views/map_view.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/outputs/result_tables.h"
#include "app/views/heads_view.h"
#include "formats/error.h"

namespace phasescope::app {
namespace {

using protocol::MapResult;
using widgets::PlotSpec;

// After the axes have rested so long, the region they show is asked for.
constexpr auto kRest = std::chrono::milliseconds(160);
// Tokens around a pair that is gone to where all of the text is on show.
constexpr std::int64_t kNeighbourhood = 48;
// Above so many tokens none has room for its text.
constexpr double kMostNamed = 256;
// The fewest tokens that keys zoom to.
constexpr std::int64_t kLeastZoomed = 8;

std::int64_t whole(double value, std::int64_t tokens) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(value), 0, tokens);
}

// Queries and keys of a text as the asked model reads it, in the stack of the head; 0 before it has
// read it.
std::pair<std::int64_t, std::int64_t> sizes_of(const QuestionOf<MapResult>& question,
                                               const TextInput& text, const std::string& head) {
  const auto* answer = question.answer();
  if (!answer || !answer->asked.is_of(text)) return {0, 0};
  const MapResult& map = answer->result;
  const std::size_t dot = head.find('.');
  const std::string stack = dot == std::string::npos ? "" : head.substr(0, dot);
  const bool same = map.stack == stack || (stack.empty() && map.stack == "dec");
  if (!same) return {0, 0};
  return {map.tokens, map.keys > 0 ? map.keys : map.tokens};
}

// [begin, end) of a text of so many tokens; the whole of it where nothing of it is left.
std::optional<protocol::Range> range_of(std::int64_t begin, std::int64_t end, std::int64_t tokens) {
  if (tokens > 0) end = std::min(end, tokens);
  if (end <= begin) return std::nullopt;
  return protocol::Range{begin, end};
}

const Grid map_of(const Answer<MapResult>& answer) {
  return grid_of(*protocol::find_tensor(answer.tensors, "map"));
}

// Why A - B cannot be drawn: they were asked for differently, as while one is not there yet, or are
// not about the same tokens. Empty where it can.
std::string obstacle_of(const MapState& state, const MapView::Shown& first,
                        const MapView::Shown& second) {
  const Answer<MapResult>&a = *first.answer, &b = *second.answer;
  if (first.text != second.text) return "A - B is not drawn: the two maps are of different texts.";
  Asked one = a.asked, other = b.asked;
  const bool own_head = state.b_layer >= 0;  // then the heads may differ, and both are to be there
  if (own_head) one.params.erase("head"), other.params.erase("head");
  if (!alike(one, other) || (own_head && (first.old || second.old))) {
    return "A - B is drawn once both maps are there.";
  }
  return difference_obstacle(a.result, b.result);
}

// The command that draws a map as it is shown; with `minus` A, B and A - B.
std::string command_of_map(const Asked& asked, const MapLook& look, const Asked* minus = nullptr) {
  if (!asked.params.is_object()) return "";  // not asked yet
  DrawnMap drawn;
  drawn.look = look;
  protocol::MapRequest& request = drawn;
  request = protocol::request_of<protocol::MapRequest>(asked.params);
  set_option_of_text(request.reading.input, asked.text, false);
  if (minus) {
    const auto other = protocol::request_of<protocol::MapRequest>(minus->params);
    drawn.minus = other.model;
    if (other.head != request.head) drawn.minus_head = other.head;
  }
  return protocol::command_line(drawn);
}

std::string command_of_maps(const std::vector<Asked>& asked, const MapLook& look) {
  std::string commands;
  for (const Asked& one : asked) {
    const std::string command = command_of_map(one, look);
    commands += (commands.empty() || command.empty() ? "" : " && ") + command;
  }
  return commands;
}

// Whether one command can subtract them: they were asked the same but for model and head.
bool can_be_subtracted(const std::vector<Asked>& asked) {
  if (asked.size() != 2 || !asked[0].params.is_object() || !asked[1].params.is_object()) {
    return false;
  }
  Asked one = asked[0], other = asked[1];
  one.params.erase("head"), other.params.erase("head");
  return alike(one, other);
}

// The largest cell of each row: of the weights of a query the mean is one by its number of keys.
std::vector<float> largest_of_rows(const Answer<MapResult>& answer) {
  const Grid cells = grid_of(*protocol::find_tensor(answer.tensors, "map"));
  std::vector<float> largest(static_cast<std::size_t>(answer.result.height), std::nanf(""));
  auto cell = cells.values.begin();
  for (float& row : largest) {
    for (std::int64_t n = 0; n < answer.result.width && cell != cells.values.end(); ++n, ++cell) {
      if (std::isfinite(*cell) && !(row >= *cell)) row = *cell;
    }
  }
  return largest;
}

// "enc.L3H1".
std::string head_in_stack(const std::string& stack, std::int64_t layer, std::int64_t head) {
  return (stack.empty() ? "" : stack + ".") + name_of_head(layer, head);
}

// The selected head as it is called in a model: a stack is chosen for the encoder-decoders among
// the models, and the others have one.
std::string selected_head(const ViewContext& context, const std::string& model) {
  const Selection& at = context.session().selection;
  return head_in_stack(context.has_stacks(model) ? at.stack : "", at.layer, at.head);
}

std::int64_t clamped_begin(std::int64_t middle, std::int64_t size, std::int64_t tokens) {
  return std::clamp<std::int64_t>(middle - size / 2, 0, std::max<std::int64_t>(0, tokens - size));
}

}  // namespace

std::optional<std::pair<std::int64_t, std::int64_t>> pair_in(const std::string& words) {
  std::vector<std::int64_t> numbers;
  const char *at = words.data(), *end = words.data() + words.size();
  while (at < end) {
    if (*at == ' ' || *at == ',' || *at == ';') {
      ++at;
      continue;
    }
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || numbers.size() == 2) return std::nullopt;
    numbers.push_back(value), at = next;
  }
  if (numbers.empty()) return std::nullopt;
  return std::pair{numbers.front(), numbers.back()};
}

Region region_around(const Region& now, std::int64_t query, std::int64_t key, std::int64_t queries,
                     std::int64_t keys) {
  const auto size = [](std::int64_t begin, std::int64_t end, std::int64_t all) {
    return std::min(all, end > begin ? end - begin : kNeighbourhood);
  };
  const std::int64_t rows = size(now.row_begin, now.row_end, queries);
  const std::int64_t cols = size(now.col_begin, now.col_end, keys);
  const std::int64_t row = clamped_begin(query, rows, queries),
                     col = clamped_begin(key, cols, keys);
  return {row, row + rows, col, col + cols};
}

Region zoomed(const Region& now, double by, const Selection& selection, std::int64_t queries,
              std::int64_t keys) {
  const auto stretched = [by](std::int64_t begin, std::int64_t end,
                              std::optional<std::int64_t> around, std::int64_t all) {
    if (end <= begin) begin = 0, end = all;
    const auto wanted = std::llround(static_cast<double>(end - begin) * by);
    const std::int64_t size = std::clamp<std::int64_t>(wanted, std::min(kLeastZoomed, all), all);
    const std::int64_t first = clamped_begin(around.value_or((begin + end) / 2), size, all);
    return std::pair{first, first + size};
  };
  const auto rows = stretched(now.row_begin, now.row_end, selection.query, queries);
  const auto columns = stretched(now.col_begin, now.col_end, selection.key, keys);
  const Region region{rows.first, rows.second, columns.first, columns.second};
  return region == Region{0, queries, 0, keys} ? Region{} : region;
}

PlotSpec map_profile(const Answer<MapResult>& answer, bool upright) {
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
  const std::vector<float> values = largest ? largest_of_rows(answer) : grid_of(*found).values;
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

std::vector<widgets::AxisTick> token_ticks(const ViewContext& context, std::size_t model,
                                           const Asked& about, const widgets::AxisLink& axis,
                                           float pixels, bool upright) {
  std::vector<widgets::AxisTick> ticks;
  const double span = axis.high - axis.low;
  if (span > kMostNamed || pixels / span < (upright ? ImGui::GetFontSize() : 6.0)) return ticks;
  float widest = 0;
  for (auto place = static_cast<std::int64_t>(std::floor(axis.low)); place < axis.high; ++place) {
    const std::string token = token_text(context, model, place, about);
    if (token.empty()) continue;
    ticks.push_back({static_cast<double>(place) + 0.5, token});
    widest = std::max(widest, ImGui::CalcTextSize(token.c_str()).x);
  }
  if (!upright && widest + 3 > pixels / static_cast<float>(span)) ticks.clear();
  return ticks;
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
        Zoom{"map.wider", "Map: zoom out", "Twice as many queries and keys", ImGuiKey_Minus, 2}}) {
    list.push_back({zoom.id, zoom.title, zoom.help, ImGuiMod_Alt | zoom.key,
                    [by = zoom.by](ViewContext& context) {
                      const Session& session = context.session();
                      const auto* map = context.requests.of(kMap, selected_model(session)).answer();
                      if (!map) return;
                      show_region(context, zoomed(session.region, by, session.selection,
                                                  map->result.tokens, map->result.keys));
                    }});
  }
  struct Choice {
    const char *word, *title;
    ImGuiKey key;
  };
  for (const Choice of :
       {Choice{"weight", "Map: weights", ImGuiKey_W}, Choice{"score", "Map: scores", ImGuiKey_S},
        Choice{"content", "Map: content scores", ImGuiKey_C},
        Choice{"positional", "Map: positional terms", ImGuiKey_P}}) {
    list.push_back({std::string("map.") + of.word, of.title, "What the attention map shows",
                    ImGuiMod_Alt | of.key, [word = std::string(of.word)](ViewContext& context) {
                      auto state = context.state<MapState>();
                      state.of = word;
                      context.set_state("Show " + word, state);
                    }});
  }
  for (const Choice show : {Choice{"a", "Map: the selected model alone", ImGuiKey_A},
                            Choice{"both", "Map: two models side by side", ImGuiKey_B},
                            Choice{"difference", "Map: A, B and their difference", ImGuiKey_D}}) {
    list.push_back({std::string("map.show_") + show.word, show.title, "Which maps are shown",
                    ImGuiMod_Alt | show.key, [word = std::string(show.word)](ViewContext& context) {
                      auto state = context.state<MapState>();
                      state.show = word;
                      context.set_state("Compare maps", state);
                    }});
  }
}

std::vector<Asked> MapView::asked_of_maps(const ViewContext& context) const {
  std::vector<Asked> asked;
  for (const Side& side : sides(context)) {
    if (side.obstacle.empty()) asked.push_back(question_of(context, side).asked());
  }
  return asked;
}

std::string MapView::command_line(const ViewContext& context) const {
  const std::vector<Asked> asked = asked_of_maps(context);
  const std::vector<Shown> maps = maps_shown(context);
  const auto all = sides(context);
  const bool difference = context.state<MapState>().show == "difference" && all.size() == 2;
  if (difference && can_be_subtracted(asked)) {
    return command_of_map(asked[0], look_to_say(context, maps, true), &asked[1]);
  }
  return command_of_maps(asked, look_to_say(context, maps, false));
}

// The look as options of the command: what is in force where it is left to the program, and nothing
// that has no effect. A command that subtracts finds what two maps have in common by itself.
MapLook MapView::look_to_say(const ViewContext& context, const std::vector<Shown>& maps,
                             bool subtracts) const {
  const auto state = context.state<MapState>();
  MapLook look = look_of(context, maps);
  const bool weights = state.of == "weight";
  if (!weights) look.scale = "linear";
  if (weights && maps.size() == 1 && look.scale != "linear" && look.scale != "log") {
    look.scale = is_thin(*map_figure(context, maps[0]).map) ? "log" : "linear";
  }
  // Of weights the ends are those of all maps, unless something else was chosen.
  const bool chosen = maps.size() < 2 || subtracts || (weights && !look.leave_out_first);
  if (chosen) look.low = state.look.low, look.high = state.look.high;
  if (look.low && look.high && *look.low >= *look.high) look.low = look.high = {};
  if (look.scale == "log") look.low.reset();
  if (look.scale == "linear") look.decades = MapLook{}.decades;
  return look;
}

std::string MapView::words_of(const Session& session, const Shown& shown) {
  const MapResult& map = shown.answer->result;
  const std::string head =
      map.heads.empty() ? head_in_stack(map.stack, map.layer, map.head) : head_name(map);
  return short_name(session, map.model) + " " + head +
         (shown.text.empty() ? "" : " on " + shown.text);
}

std::vector<std::string> MapView::chosen_heads(const ViewContext& context, std::size_t model) {
  std::vector<std::string> heads;
  for (const ChosenHead& head : context.state<HeadsState>().chosen) {
    if (head.model == context.session().models[model]) {
      heads.push_back(name_of_head(head.layer, head.head));
    }
  }
  return heads;
}

// A, and B where it is shown and there is one.
std::vector<MapView::Side> MapView::sides(const ViewContext& context) const {
  const Session& session = context.session();
  if (session.models.empty()) return {};
  const auto state = context.state<MapState>();
  const Selection& at = session.selection;
  const std::size_t a = std::min(static_cast<std::size_t>(at.model), session.models.size() - 1);
  std::vector<Side> sides{{a, {selected_head(context, session.models[a])}, false, ""}};
  sides[0].text = context.text_for(session.models[a]);
  if (state.mean) {
    // Heads of another stack than is on show are not told apart in what is chosen.
    std::vector<std::string> chosen = chosen_heads(context, a);
    for (std::string& head : chosen) {
      if (!at.stack.empty() && context.has_stacks(session.models[a])) head = at.stack + "." + head;
    }
    if (chosen.size() > 1) {
      sides[0].heads = std::move(chosen);
      return sides;
    }
  }
  if (state.show == "a") return sides;
  const auto named = std::ranges::find(session.models, state.b);
  std::size_t b = a == 0 ? 1 : 0;
  if (named != session.models.end()) b = static_cast<std::size_t>(named - session.models.begin());
  if (b >= session.models.size()) b = a;
  Side side{b, {selected_head(context, session.models[b])}, b == a, ""};
  side.text = context.text_for(session.models[b]);
  // A model that reads no words has seeded ids, whatever the text is.
  if (const KeptText& own = text_of_b(context); !own.words.empty() && !side.text.words.empty()) {
    side.text.name = own.name, side.text.words = own.words;
    side.text_name = name_of_text(own.name, own.words);
  }
  if (state.b_layer >= 0) {
    side.heads = {head_in_stack(context.has_stacks(session.models[b]) ? state.b_stack : "",
                                state.b_layer, state.b_head)};
  } else {
    side.obstacle = head_obstacle(context, b);
  }
  if (b != a || side.heads != sides[0].heads || !side.text_name.empty()) {
    sides.push_back(std::move(side));
  }
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

bool MapView::ready(const ViewContext& context) const {
  context.models_known();
  return std::ranges::all_of(sides(context),
                             [&](const Side& side) { return context.model_known(side.model); });
}

void MapView::ask(ViewContext& context) {
  const auto state = context.state<MapState>();
  const Region& region = context.session().region;
  for (const Side& side : sides(context)) {
    if (!side.obstacle.empty()) continue;
    auto& question = question_of(context, side);
    protocol::MapRequest request{.model = context.session().models[side.model]};
    request.head = side.heads;
    request.of = state.of, request.pool = state.pool;
    request.size = {cells_, cells_};
    const auto [queries, keys] = sizes_of(question, side.text, side.heads.front());
    request.rows = range_of(region.row_begin, region.row_end, queries);
    request.cols = range_of(region.col_begin, region.col_end, keys);
    set_text(request.reading, side.text);
    context.requests.ask(question, request, side.text.words);
  }
  // For the axes: the question that the text's own view asks.
  if (context.models_known()) ask_for_tokens(context);
}

// A model without the selected head has no map here: its last answer is of another head.
std::vector<MapView::Shown> MapView::maps_shown(const ViewContext& context) const {
  std::vector<Shown> maps;
  for (const Side& side : sides(context)) {
    if (!side.obstacle.empty()) continue;
    const auto& question = question_of(context, side);
    const auto* answer = question.answer();
    if (answer && protocol::find_tensor(answer->tensors, "map")) {
      maps.push_back({answer, side.model, !question.answers_now(), side.text_name});
    }
  }
  return maps;
}

bool MapView::Scene::old(std::size_t plot) const {
  if (plot < maps.size()) return maps[plot].old;
  return maps[0].old || maps[1].old;
}

// Before its look.
PlotSpec MapView::map_figure(const ViewContext& context, const Shown& shown) {
  const MapAnswer& answer = *shown.answer;
  return attention_map_figure(answer.result, map_of(answer), names_of(context.session()),
                              sink_of(answer.tensors));
}

// The look of A alone as it was chosen; two maps have one look in common.
MapLook MapView::look_of(const ViewContext& context, const std::vector<Shown>& maps) const {
  const MapLook look = context.state<MapState>().look;
  if (maps.size() < 2) return look;
  const auto spec = [&](const Shown& one) { return *map_figure(context, one).map; };
  return common_look(look, spec(maps[0]), spec(maps[1]));
}

PlotSpec MapView::plot_of(const ViewContext& context, const Shown& shown,
                          const MapLook& look) const {
  const MapAnswer& answer = *shown.answer;
  PlotSpec plot = map_figure(context, shown);
  apply_look(plot, look);
  const protocol::Provenance& made = answer.result.provenance;
  if (!made.kernel.empty()) plot.notes.back() += "; computed by " + made.kernel + ", " + made.dtype;
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
    if (!all.empty() && all[0].folder == folder) {
      folder += "_" + name_of_head(answer.result.layer, answer.result.head) +
                (shown.text.empty() ? "" : "_other_text");
    }
    all.push_back({std::move(folder), std::move(output),
                   command_of_map(answer.asked, look_to_say(context, maps, false))});
  }
  if (context.state<MapState>().show != "difference" || maps.size() < 2) return all;
  const MapAnswer &a = *maps[0].answer, &b = *maps[1].answer;
  if (!obstacle_of(context.state<MapState>(), maps[0], maps[1]).empty()) return all;
  Output output{.result = {{"a", all[0].output.result}, {"b", all[1].output.result}}};
  for (const Saved& one : {all[0], all[1]}) {
    for (const nlohmann::json& made : one.output.provenance) output.provenance.push_back(made);
  }
  output.figures = {map_difference_figure(a.result, map_of(a), b.result, map_of(b), names)};
  const bool one_command = can_be_subtracted({a.asked, b.asked});
  all.push_back({"difference", std::move(output),
                 one_command ? command_of_map(a.asked, look_to_say(context, maps, true), &b.asked)
                             : all[0].command + " && " + all[1].command});
  return all;
}

// The maps on show with their pictures: A, B, and A - B where the two can be subtracted.
MapView::Scene MapView::scene_of(ViewContext& context) {
  Scene scene;
  scene.maps = maps_shown(context);
  const auto state = context.state<MapState>();
  std::string key = names_key(context) + protocol::to_json_form(state.look).dump() + "/";
  for (const Shown& one : scene.maps) key += serials_of(one.answer);
  const MapLook& look = look_.get(key, [&] { return look_of(context, scene.maps); });
  for (std::size_t i = 0; i < scene.maps.size(); ++i) {
    scene.plots.push_back(
        &pictures_[i].plot.get(key, [&] { return plot_of(context, scene.maps[i], look); }));
  }
  if (state.show != "difference" || scene.maps.size() < 2) return scene;
  const MapAnswer &a = *scene.maps[0].answer, &b = *scene.maps[1].answer;
  scene.obstacle = obstacle_of(state, scene.maps[0], scene.maps[1]);
  scene.difference = scene.obstacle.empty();
  if (scene.difference) {
    scene.plots.push_back(&pictures_[2].plot.get(key, [&] {
      return map_difference_figure(a.result, map_of(a), b.result, map_of(b),
                                   names_of(context.session()));
    }));
  }
  return scene;
}

// Sets the axes where the session's region is another one than they were last set to.
void MapView::follow_session(ViewContext& context, std::int64_t tokens, std::int64_t keys) {
  const Region& now = context.session().region;
  if (applied_tokens_ == tokens && applied_keys_ == keys && now == applied_) return;
  const auto end = [](std::int64_t value, std::int64_t all) {
    return static_cast<double>(value > 0 ? value : all);
  };
  y_ = {static_cast<double>(now.row_begin), end(now.row_end, tokens)};
  x_ = {static_cast<double>(now.col_begin), end(now.col_end, keys)};
  seen_x_ = x_, seen_y_ = y_;
  applied_ = now, applied_tokens_ = tokens, applied_keys_ = keys;
  moving_ = false;
}

// Once the axes rest, their region becomes the session's, and with it the next question.
void MapView::settle(ViewContext& context, std::int64_t tokens, std::int64_t keys) {
  const auto now = std::chrono::steady_clock::now();
  const auto differs = [](const widgets::AxisLink& a, const widgets::AxisLink& b) {
    return std::abs(a.low - b.low) > 1e-6 || std::abs(a.high - b.high) > 1e-6;
  };
  if (differs(x_, seen_x_) || differs(y_, seen_y_)) {
    seen_x_ = x_, seen_y_ = y_;
    moved_at_ = now, moving_ = true;
  }
  context.window.moving = context.window.moving || moving_;
  if (!moving_ || now - moved_at_ < kRest) return;
  moving_ = false;
  std::int64_t r0 = whole(std::floor(y_.low), tokens), r1 = whole(std::ceil(y_.high), tokens);
  std::int64_t c0 = whole(std::floor(x_.low), keys), c1 = whole(std::ceil(x_.high), keys);
  if (r1 <= r0 || c1 <= c0) return;
  if (r0 == 0 && c0 == 0 && r1 == tokens && c1 == keys) r1 = c1 = 0;
  show_region(context, {r0, r1, c0, c1});
  applied_ = context.session().region;  // the axes stay as the hand left them
}

}  // namespace phasescope::app
