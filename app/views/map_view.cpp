#include "app/views/map_view.h"

#include <implot.h>

#include <algorithm>
#include <cmath>

#include "app/verbs/verb.h"
#include "app/window/commands.h"
#include "app/window/session_requests.h"
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
  const auto* answer = context.of(index).map.answer();
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

// None of a model without the selected head, whose last answer is of another one.
const Answer<MapResult>* shown_answer(const ViewContext& context, std::size_t index) {
  return head_obstacle(context, index).empty() ? answer_of(context, index) : nullptr;
}

// The head as the command line names it, of an encoder-decoder with its stack.
std::string head_words(const ViewContext& context) {
  const Selection& at = context.session().selection;
  const std::string name = name_of_head(at.layer, at.head);
  const auto model = static_cast<std::size_t>(at.model);
  const auto* answer = model < context.models() ? answer_of(context, model) : nullptr;
  return answer && !answer->result.stack.empty() ? answer->result.stack + "." + name : name;
}

std::string token_text(const ViewContext& context, std::size_t model, int64_t place) {
  const auto* answer = context.of(model).text.answer();
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

std::string MapView::command_line(const Session& session) const {
  const std::string model = selected_model(session);
  if (model.empty()) return "";
  const MapState& map = session.map;
  std::string line = "phasescope map " + shell_word(model) + " --head " +
                     name_of_head(session.selection.layer, session.selection.head) + " --of " +
                     map.of + " --pool " + map.pool + " --size " + std::to_string(cells_) + "x" +
                     std::to_string(cells_);
  if (map.row_end > 0)
    line += " --rows " + std::to_string(map.row_begin) + ":" + std::to_string(map.row_end) +
            " --cols " + std::to_string(map.col_begin) + ":" + std::to_string(map.col_end);
  return line + text_option(session);
}

std::vector<std::size_t> MapView::shown_models(const Session& session) const {
  if (session.models.empty()) return {};
  const std::size_t first =
      std::min(static_cast<std::size_t>(session.selection.model), session.models.size() - 1);
  if (session.map.show == "a" || session.models.size() < 2) return {first};
  return {first, first == 0 ? std::size_t{1} : std::size_t{0}};
}

void MapView::ask(ViewContext& context) {
  for (std::size_t index : shown_models(context.session())) {
    if (!head_obstacle(context, index).empty()) continue;
    const std::string& model = context.session().models[index];
    const Session session = context.session_for(model);
    context.requests.ask(context.requests.of(model).map, map_params(session, model, cells_, cells_),
                         session.text.words);
  }
}

PlotSpec MapView::plot_of(const Session& session, const MapAnswer& answer) const {
  const auto* tensor = protocol::find_tensor(answer.tensors, "map");
  PlotSpec plot = attention_map_figure(answer.result, grid_of(*tensor));
  if (session.map.logarithmic && answer.result.of == "weight") {
    plot.map->log_decades = 4;
    plot.notes.back() = widgets::scale_note(*plot.map);
  }
  const protocol::Provenance& made = answer.result.provenance;
  if (!made.kernel.empty()) plot.notes.back() += "; computed by " + made.kernel + ", " + made.dtype;
  return plot;
}

Output MapView::exported(ViewContext& context) {
  Output output;
  std::vector<const MapAnswer*> answers;
  for (std::size_t index : shown_models(context.session()))
    if (const auto* answer = shown_answer(context, index)) answers.push_back(answer);
  for (const auto* answer : answers) {
    output.result["maps"].push_back(protocol::to_json_form(answer->result));
    output.figures.push_back(plot_of(context.session(), *answer));
  }
  if (answers.size() == 2 && context.session().map.show == "difference") {
    const Grid a = grid_of(*protocol::find_tensor(answers[0]->tensors, "map"));
    const Grid b = grid_of(*protocol::find_tensor(answers[1]->tensors, "map"));
    if (a.values.size() == b.values.size())
      output.figures.push_back(map_difference_figure(answers[0]->result, a, answers[1]->result, b));
  }
  return output;
}

void MapView::draw_controls(ViewContext& context) {
  MapState state = context.session().map;
  const Selection& at = context.session().selection;
  ImGui::PushFont(widgets::fonts().bold, 0.0F);
  ImGui::AlignTextToFramePadding();
  const std::string model = selected_model(context.session());
  const std::string name = short_name(context.session(), model);
  ImGui::Text("%s %s", name.c_str(), head_words(context).c_str());
  ImGui::PopFont();
  tooltip((name == model ? "" : model + "\n") +
          (at.head < 0 ? "Mean of all heads of the layer" : "Alt and the arrow keys change it"));
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
  if (changed) context.edit.apply("Change the map", [&](Session& s) { s.map = state; });
  draw_tools(context);
}

// Sets the axes where the session's region is another one than they were last set to.
void MapView::follow_session(ViewContext& context, int64_t tokens) {
  const MapState& now = context.session().map;
  const bool same = applied_tokens_ == tokens && now.row_begin == applied_.row_begin &&
                    now.row_end == applied_.row_end && now.col_begin == applied_.col_begin &&
                    now.col_end == applied_.col_end;
  if (same) return;
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
  zoom_map(context, r0, r1, c0, c1);
  applied_ = context.session().map;  // the axes stay as the hand left them
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
  if (drawn.double_clicked) zoom_map(context, 0, 0, 0, 0), applied_tokens_ = 0;
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
  for (std::size_t index : shown_models(context.session()))
    if (const auto* answer = shown_answer(context, index)) scene.answers.push_back(answer);
  const std::string look = std::to_string(context.session().map.logarithmic);
  const auto& answers = scene.answers;
  for (std::size_t i = 0; i < answers.size(); ++i)
    scene.plots.push_back(&pictures_[i].plot.get(
        serials_of(answers[i]) + look, [&] { return plot_of(context.session(), *answers[i]); }));
  scene.difference = context.session().map.show == "difference" && answers.size() == 2 &&
                     answers[0]->result.height == answers[1]->result.height &&
                     answers[0]->result.width == answers[1]->result.width;
  if (scene.difference)
    scene.plots.push_back(&pictures_[2].plot.get(serials_of(answers[0], answers[1]), [&] {
      return map_difference_figure(
          answers[0]->result, grid_of(*protocol::find_tensor(answers[0]->tensors, "map")),
          answers[1]->result, grid_of(*protocol::find_tensor(answers[1]->tensors, "map")));
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
  const auto& curves = profiles_.get(serials_of(scene.answers[0]), [&] {
    return std::array<PlotSpec, 2>{profile_plot(*scene.answers[0], false),
                                   profile_plot(*scene.answers[0], true)};
  });
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
    const std::string model = difference ? "A - B" : scene.answers[i]->result.model;
    const std::string words = difference ? model : short_name(context.session(), model);
    ImGui::TextUnformatted(words.c_str());
    if (words != model) tooltip(model);
    ImGui::SameLine();
    ImGui::TextColored(widgets::palette().quiet, "%s",
                       widgets::scale_text(*scene.plots[i]->map).c_str());
    const char* name = difference ? "difference" : i == 0 ? "a" : "b";
    draw_one(context, name, *scene.plots[i], pictures_[difference ? 2 : i], size, false);
    ImGui::EndGroup();
  }
}

void MapView::draw_maps(ViewContext& context) {
  const Scene scene = scene_of(context);
  if (scene.answers.empty()) return;
  const int64_t tokens = scene.answers[0]->result.tokens;
  follow_session(context, tokens);
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
  for (std::size_t index : shown_models(context.session())) {
    const std::string obstacle = head_obstacle(context, index);
    if (obstacle.empty())
      draw_question(context, context.of(index).map,
                    short_name(context.session(), context.session().models[index]));
    else
      ImGui::TextWrapped("%s", obstacle.c_str());
  }
  draw_maps(context);
}

}  // namespace phasescope::app
