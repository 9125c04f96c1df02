#include "app/views/map_view.h"

#include <implot.h>

#include <algorithm>
#include <cmath>

#include "app/verbs/verb_tools.h"
#include "app/views/text_view.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::MapResult;
using widgets::AxisLink;
using widgets::PlotSpec;

// After the axes have rested so long, the region they show is asked for.
constexpr auto kRest = std::chrono::milliseconds(160);
constexpr int kCellStep = 64, kMostCells = 768;
// In lines of text: a map with less room than this has no curves beside it.
constexpr float kRoomForCurves = 18, kCurveHeight = 5, kCurveWidth = 5;

const Answer<MapResult>* answer_of(const ViewContext& context, std::size_t index) {
  const auto* answer = context.of(kMap, index).answer();
  return answer && protocol::find_tensor(answer->tensors, "map") ? answer : nullptr;
}

int64_t whole(double value, int64_t tokens) {
  return std::clamp<int64_t>(static_cast<int64_t>(value), 0, tokens);
}

// The mean of each column of cells, or (upright) of each row of cells beside the map.
PlotSpec profile_plot(const Answer<MapResult>& answer, bool upright) {
  const MapResult& map = answer.result;
  PlotSpec plot;
  plot.id = upright ? "by_query" : "by_key";
  plot.legend = false;
  (upright ? plot.x : plot.y).label = "mean";
  const auto* found =
      protocol::find_tensor(answer.tensors, upright ? "row_profile" : "column_profile");
  if (!found) return plot;
  const auto begin = static_cast<double>(upright ? map.row_begin : map.column_begin);
  const auto end = static_cast<double>(upright ? map.row_end : map.column_end);
  const auto values = found->values<float>();
  const double step = (end - begin) / static_cast<double>(std::max<std::size_t>(1, values.size()));
  widgets::Series series;
  series.width = 1.2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double at = begin + (static_cast<double>(i) + 0.5) * step;
    // Where the mask hides every pair there is no mean: the curve has a gap.
    const double mean = std::isfinite(values[i]) ? values[i] : std::nan("");
    series.x.push_back(upright ? mean : at);
    series.y.push_back(upright ? at : mean);
  }
  plot.series.push_back(std::move(series));
  return plot;
}

std::string words_of_show(const std::string& show) {
  return show == "a" ? "A" : show == "both" ? "A | B" : "A | B | A-B";
}

// "rope L3H1", of an encoder-decoder with its stack.
std::string words_of(const Session& session, const MapResult& map) {
  return short_name(session, map.model) + " " + (map.stack.empty() ? "" : map.stack + ".") +
         name_of_head(map.layer, map.head);
}

// Tokens of the session's text as a model reads it; 0 before it has read it.
int64_t tokens_of(const ViewContext& context, const std::string& model) {
  const auto* answer = context.requests.of(kMap, model).answer();
  const TextInput text = context.text_for(model);
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
std::string difference_obstacle(const Answer<MapResult>& a, const Answer<MapResult>& b) {
  if (!alike(a.asked, b.asked)) return "A - B is drawn once both maps are there.";
  if (a.result.provenance.text_hash != b.result.provenance.text_hash)
    return "A - B is not drawn: the two models read the text as different tokens.";
  if (a.result.height != b.result.height || a.result.width != b.result.width)
    return "A - B is not drawn: the two maps are not of the same queries and keys.";
  return "";
}

std::string token_text(const ViewContext& context, std::size_t model, int64_t place) {
  const auto* answer = context.of(kText, model).answer();
  if (!answer || place < 0 || place >= static_cast<int64_t>(answer->result.tokens.size()))
    return "";
  return " \"" + answer->result.tokens[static_cast<std::size_t>(place)].text + "\"";
}

}  // namespace

std::string MapView::help_text() const {
  return "Queries from top to bottom, keys from left to right. The wheel zooms, dragging moves, a "
         "double click shows all again; zoomed in far enough, each cell is one pair and its value "
         "is exact. Grey is the masked triangle: the query cannot see those keys. Click marks a "
         "pair in all views. The curves are means over the pairs that are shown: of each key "
         "below, of "
         "each query at the right.";
}

void MapView::add_commands(std::vector<Command>& list) const {
  list.push_back({"map.all", "Map: show all queries and keys", "Undo every zoom",
                  ImGuiMod_Ctrl | ImGuiKey_0,
                  [](ViewContext& context) { show_region(context, {}); }});
  struct Choice {
    const char *word, *title;
  };
  for (const Choice of :
       {Choice{"weight", "Map: weights"}, Choice{"score", "Map: scores"},
        Choice{"content", "Map: content scores"}, Choice{"positional", "Map: positional terms"}})
    list.push_back({std::string("map.") + of.word, of.title, "What the attention map shows", 0,
                    [word = std::string(of.word)](ViewContext& context) {
                      auto state = context.state<MapState>();
                      state.of = word;
                      context.set_state("Show " + word, state);
                    }});
  for (const Choice show : {Choice{"a", "Map: the selected model alone"},
                            Choice{"both", "Map: two models side by side"},
                            Choice{"difference", "Map: A, B and their difference"}})
    list.push_back({std::string("map.show_") + show.word, show.title, "Which maps are shown", 0,
                    [word = std::string(show.word)](ViewContext& context) {
                      auto state = context.state<MapState>();
                      state.show = word;
                      context.set_state("Compare maps", state);
                    }});
}

std::string MapView::command_line(const ViewContext& context) const {
  const std::string model = selected_model(context.session());
  if (model.empty()) return "";
  return command_of<protocol::MapRequest>({context.requests.of(kMap, model).asked()});
}

std::vector<std::size_t> MapView::shown_models(const ViewContext& context) const {
  const Session& session = context.session();
  if (session.models.empty()) return {};
  const std::size_t first =
      std::min(static_cast<std::size_t>(session.selection.model), session.models.size() - 1);
  if (context.state<MapState>().show == "a" || session.models.size() < 2) return {first};
  return {first, first == 0 ? std::size_t{1} : std::size_t{0}};
}

void MapView::ask(ViewContext& context) {
  const auto state = context.state<MapState>();
  const Selection& at = context.session().selection;
  const Region& region = context.session().region;
  for (std::size_t index : shown_models(context)) {
    if (!head_obstacle(context, index).empty()) continue;
    const std::string& model = context.session().models[index];
    const TextInput text = context.text_for(model);
    const int64_t tokens = tokens_of(context, model);
    protocol::MapRequest request{.model = model};
    request.head = name_of_head(at.layer, at.head);
    request.of = state.of, request.pool = state.pool;
    request.size = {cells_, cells_};
    request.rows = range_of(region.row_begin, region.row_end, tokens);
    request.cols = range_of(region.col_begin, region.col_end, tokens);
    set_text(request.reading, text);
    context.requests.ask(context.of(kMap, index), request, text.words);
  }
}

// None of a model without the selected head, whose last answer is of another one.
std::vector<MapView::Shown> MapView::maps_shown(const ViewContext& context) const {
  std::vector<Shown> maps;
  for (std::size_t index : shown_models(context))
    if (head_obstacle(context, index).empty())
      if (const auto* answer = answer_of(context, index))
        maps.push_back({answer, !context.of(kMap, index).answers_now()});
  return maps;
}

bool MapView::Scene::old(std::size_t plot) const {
  if (plot < maps.size()) return maps[plot].old;
  return maps[0].old || maps[1].old;
}

PlotSpec MapView::plot_of(const ViewContext& context, const MapAnswer& answer) const {
  PlotSpec plot = attention_map_figure(answer.result, map_of(answer), names_of(context.session()));
  if (context.state<MapState>().logarithmic && answer.result.of == "weight") {
    plot.map->log_decades = 4;
    plot.notes.back() = widgets::scale_note(*plot.map);
  }
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
    output.figures = {plot_of(context, answer)};
    all.push_back({names.file_name(answer.result.model), std::move(output),
                   command_of<protocol::MapRequest>({answer.asked})});
  }
  if (context.state<MapState>().show != "difference" || maps.size() < 2) return all;
  const MapAnswer &a = *maps[0].answer, &b = *maps[1].answer;
  if (!difference_obstacle(a, b).empty()) return all;
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
  if (!maps.empty()) words = words_of(context.session(), maps[0].answer->result);
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(words.c_str());
  ImGui::PopFont();
  tooltip(model + "\n" +
          (at.head < 0 ? "Mean of all heads of the layer" : "Alt and the arrow keys change it"));
}

void MapView::draw_controls(ViewContext& context) {
  auto state = context.state<MapState>();
  draw_title(context);
  ImGui::SameLine();
  bool changed = draw_choice("##of", state.of, {"weight", "score", "content", "positional"});
  tooltip(
      "Weights are after the softmax, scores before it; content and positional term are the "
      "parts of the score");
  ImGui::SameLine();
  changed |= draw_choice("##pool", state.pool, {"max", "mean"});
  tooltip("How the pairs of a cell become one value while a cell holds several");
  ImGui::SameLine();
  std::string shown = words_of_show(state.show);
  if (draw_choice("##show", shown, {"A", "A | B", "A | B | A-B"})) {
    state.show = shown == "A" ? "a" : shown == "A | B" ? "both" : "difference";
    changed = true;
  }
  tooltip("A is the selected model, B the other one");
  if (state.of == "weight") {
    ImGui::SameLine();
    changed |= ImGui::Checkbox("log", &state.logarithmic);
  }
  if (changed) context.set_state("Change the map", state);
  draw_tools(context);
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

void MapView::draw_one(ViewContext& context, const char* name, const PlotSpec& plot,
                       Picture& picture, ImVec2 size, bool alone) {
  if (picture.texture_version != picture.plot.version()) {
    picture.texture.set_values(plot.map->rows, plot.map->cols, plot.map->values);
    picture.texture_version = picture.plot.version();
  }
  widgets::PlotDraw options;
  options.size = size;
  options.texture = &picture.texture;
  options.link_x = &x_, options.link_y = &y_;
  options.notes = false;
  const Selection& at = context.session().selection;
  if (at.query) options.mark_y = static_cast<double>(*at.query) + 0.5;
  if (at.key) options.mark_x = static_cast<double>(*at.key) + 0.5;
  options.axis_labels = alone, options.color_scale = false;
  ImGui::PushID(name);
  const auto drawn = widgets::draw_plot(plot, options);
  ImGui::PopID();
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
  const std::string look = names_key(context) + std::to_string(state.logarithmic);
  for (std::size_t i = 0; i < scene.maps.size(); ++i) {
    const MapAnswer& answer = *scene.maps[i].answer;
    scene.plots.push_back(&pictures_[i].plot.get(look + serials_of(&answer),
                                                 [&] { return plot_of(context, answer); }));
  }
  if (state.show != "difference" || scene.maps.size() < 2) return scene;
  const MapAnswer &a = *scene.maps[0].answer, &b = *scene.maps[1].answer;
  scene.difference = difference_obstacle(a, b).empty();
  if (scene.difference)
    scene.plots.push_back(&pictures_[2].plot.get(look + serials_of(&a, &b), [&] {
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
  const ImVec2 size{room.x - widgets::color_scale_width() - gap.x - side, room.y - low};
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
    draw_one(context, "a", *scene.plots[0], pictures_[0], size, true);
    options.link_x = &x_;
    options.size = {size.x, low - gap.y};
    if (below) widgets::draw_plot(curves[0], options);
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
  widgets::draw_plot(curves[1], options);
}

void MapView::draw_side_by_side(ViewContext& context, const Scene& scene, ImVec2 room) {
  const auto count = scene.plots.size();
  const float gap = ImGui::GetStyle().ItemSpacing.x, parts = static_cast<float>(count);
  const ImVec2 size{(room.x - gap * (parts - 1)) / parts,
                    room.y - ImGui::GetTextLineHeightWithSpacing()};
  for (std::size_t i = 0; i < count; ++i) {
    const bool difference = scene.difference && i + 1 == count;
    if (i > 0) ImGui::SameLine();
    ImGui::BeginGroup();
    const MapResult* map = difference ? nullptr : &scene.maps[i].answer->result;
    ImGui::TextUnformatted(map ? words_of(context.session(), *map).c_str() : "A - B");
    if (map) tooltip(map->model);
    ImGui::SameLine();
    ImGui::TextColored(widgets::palette().quiet, "%s",
                       widgets::scale_text(*scene.plots[i]->map).c_str());
    const char* name = difference ? "difference" : i == 0 ? "a" : "b";
    {
      const Dimmed dimmed(scene.old(i));
      draw_one(context, name, *scene.plots[i], pictures_[difference ? 2 : i], size, false);
    }
    ImGui::EndGroup();
  }
}

// Why there is no A - B, where it is wanted.
void MapView::draw_obstacle(ViewContext& context, const Scene& scene) {
  const bool wanted = context.state<MapState>().show == "difference" && scene.maps.size() == 2;
  if (!wanted || scene.difference) return;
  const std::string why = difference_obstacle(*scene.maps[0].answer, *scene.maps[1].answer);
  ImGui::TextWrapped("%s", why.c_str());
}

void MapView::draw_maps(ViewContext& context) {
  const Scene scene = scene_of(context);
  if (scene.maps.empty()) return;
  const int64_t tokens = scene.maps[0].answer->result.tokens;
  follow_session(context, tokens);
  draw_obstacle(context, scene);
  const auto& notes = scene.plots.back()->notes;
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
        "query " + std::to_string(*at.query) + token_text(context, model, *at.query);
    if (at.key) words += ", key " + std::to_string(*at.key) + token_text(context, model, *at.key);
    ImGui::TextUnformatted(words.c_str());
  } else {
    ImGui::TextColored(widgets::palette().quiet, "wheel: zoom   drag: move   double click: all");
  }
}

void MapView::draw_content(ViewContext& context) {
  draw_controls(context);
  if (context.models() == 0)
    return widgets::draw_empty("The map of a head will be here. Tick a model, pick a head.");
  for (std::size_t index : shown_models(context)) {
    const std::string obstacle = head_obstacle(context, index);
    if (obstacle.empty())
      draw_question(context, context.of(kMap, index),
                    short_name(context.session(), context.session().models[index]));
    else
      ImGui::TextWrapped("%s", obstacle.c_str());
  }
  draw_maps(context);
}

}  // namespace phasescope::app
