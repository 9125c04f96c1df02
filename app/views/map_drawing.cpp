// The controls of the attention map and its pictures.
#include <implot.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>

#include "app/views/controls_room.h"
#include "app/views/intervene_view.h"
#include "app/views/map_view.h"
#include "app/views/plot_grid.h"
#include "app/views/text_view.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

using protocol::MapResult;
using widgets::MapSpec;
using widgets::PlotSpec;

constexpr int kCellStep = 64, kMostCells = 768;
// In lines of text: a map with less room than this has no curves beside it.
constexpr float kRoomForCurves = 18, kCurveHeight = 5, kCurveWidth = 5;
constexpr float kLeastMap = 9;  // of one among several

std::string words_of_show(const std::string& show) {
  return show == "a" ? "A" : show == "both" ? "A | B" : "A | B | A-B";
}

std::string in_quotes(const std::string& token) {
  return token.empty() ? "" : " \"" + token + "\"";
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
  if (ImGui::IsItemDeactivatedAfterEdit() && set && std::isfinite(number)) {
    value = number, changed = true;
  }
  ImGui::EndDisabled();
  return changed;
}

// What a value under the pointer is of where a cell holds several pairs; empty of single ones.
std::string words_of_pooling(const MapResult& map, bool difference) {
  if (!pools(map)) return "";
  if (map.pool != "max") return "means of the cell's pairs";
  return difference ? "each map's largest of the cell's pairs, and A - B of these two"
                    : "the largest of the cell's pairs";
}

// What stands under one of several maps: its scale first.
std::vector<std::string> caption_of(const PlotSpec& plot) {
  std::vector<std::string> notes = plot.notes;
  if (!notes.empty()) std::ranges::rotate(notes, notes.end() - 1);
  return notes;
}

float caption_height() { return widgets::notes_height({"scale"}, ImGui::GetFontSize() * 99); }

}  // namespace

// --- controls ---------------------------------------------------------------------------------

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
  if (!maps.empty() && !maps[0].answer->result.heads.empty()) {
    std::string all = model + "\nMean of";
    for (const std::string& head : maps[0].answer->result.heads) all += " " + head;
    return tooltip(all);
  }
  tooltip(model + "\n" +
          (at.head < 0 ? "Mean of all heads of the layer" : "Alt and the arrow keys change it"));
}

// What the colours mean; the button opens the choices.
bool MapView::draw_colors(ViewContext& context, MapState& state) {
  if (ImGui::Button("Colours")) ImGui::OpenPopup("colours");
  tooltip("Scale and range of the colours, and the shape of the cells");
  if (!ImGui::BeginPopup("colours")) return false;
  const MapSpec* map = pictures_[0].plot.version() > 0 ? &*pictures_[0].plot.value().map : nullptr;
  bool changed = false;
  MapLook& look = state.look;
  const float width = ImGui::GetFontSize() * 8;
  if (state.of == "weight") {
    changed |= draw_choice("scale", look.scale, protocol::split_choices(kScales), width);
    tooltip("Automatic: log where fewer than one cell in ten reaches a tenth of the largest");
    ImGui::SetNextItemWidth(width);
    const std::string label = std::to_string(look.decades) + " decades of a log scale###decades";
    int decades = static_cast<int>(look.decades);
    changed |= ImGui::SliderInt(label.c_str(), &decades, 1, 12, "");
    look.decades = decades;
  }
  const MapLook before = look;
  const double low = map ? map->range.low : 0, high = map ? map->range.high : 1;
  ImGui::BeginDisabled(map && map->log_decades > 0);  // which has its lower end from its decades
  changed |= draw_optional("lower end", look.low, low);
  ImGui::EndDisabled();
  changed |= draw_optional("upper end", look.high, high);
  if (look.low.value_or(low) >= look.high.value_or(high)) {
    look.low = before.low, look.high = before.high;
    context.window.say("The lower end of the colours lies below the upper one");
  }
  changed |= ImGui::Checkbox("key 0 left out", &look.leave_out_first);
  tooltip("The range is fitted to the other keys: key 0 takes most of the weight of many heads");
  changed |= ImGui::Checkbox("square cells", &state.square);
  if (map) {
    ImGui::TextColored(widgets::palette().quiet, "now %s", widgets::scale_text(*map).c_str());
    if (const std::string clipped = clipping_note(*map, look); !clipped.empty()) {
      ImGui::TextColored(widgets::palette().warn, "%s", clipped.c_str());
    }
  }
  if (ImGui::Button(kReset)) look = {}, state.square = true, changed = true;
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
  const bool encoder =
      context.has_stacks(context.session().models[model]) && state.b_stack == "enc";
  const std::int64_t count = encoder ? report->model.encoder_layers : report->model.layers;
  for (std::int64_t i = 0; i < count; ++i) layers.push_back("L" + std::to_string(i));
  for (std::int64_t i = 0; i < report->model.heads; ++i) heads.push_back("H" + std::to_string(i));
  // What was chosen of another model may not be there.
  const auto word_of = [](const std::vector<std::string>& words, std::int64_t value,
                          const char* kind) {
    const auto place = static_cast<std::size_t>(value + 1);
    return place < words.size() ? words[place] : kind + std::to_string(value) + " (none)";
  };
  std::string layer = word_of(layers, state.b_layer, "L");
  std::string head = word_of(heads, state.b_head, "H");
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
  if (!context.has_stacks(context.session().models[model])) return changed;
  ImGui::SameLine();
  std::string stack = state.b_stack.empty() ? "dec" : state.b_stack;
  if (draw_choice("##stack of B", stack, {"dec", "enc", "cross"})) {
    state.b_stack = stack, changed = true;
  }
  return changed;
}

// What B reads: the same as A, or a text that was read before.
bool MapView::draw_text_of_b(const ViewContext& context, MapState& state) {
  constexpr const char* kSameText = "same text";
  const KeptText& now = text_of_b(context);
  const std::string words = now.words.empty() ? kSameText : name_of_text(now.name, now.words);
  width_of_next(9);
  const bool open = ImGui::BeginCombo("##text of B", words.c_str());
  tooltip("What B reads: the same text, or one that was read before (Text)");
  if (!open) return false;
  bool changed = ImGui::Selectable(kSameText, state.b_text.empty());
  if (changed) state.b_text.clear();
  for (const KeptText& text : other_texts(context.session())) {
    const std::string id = id_of_text(text);
    ImGui::PushID(id.c_str());
    if (ImGui::Selectable(name_of_text(text.name, text.words).c_str(), id == state.b_text)) {
      state.b_text = id, changed = true;
    }
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
  width_of_next(9);
  if (ImGui::BeginCombo("##B", short_name(session, session.models[now]).c_str())) {
    for (std::size_t i = 0; i < session.models.size(); ++i) {
      if (ImGui::Selectable(short_name(session, session.models[i]).c_str(), i == now)) {
        state.b = session.models[i], changed = true;
      }
      tooltip(session.models[i]);
    }
    ImGui::EndCombo();
  } else {
    tooltip(session.models[now]);
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
  const std::int64_t last = applied_tokens_ - 1;
  if (!pair) {
    goto_.clear();
    return context.window.say("A pair is two numbers from 0 to " + std::to_string(last) +
                              ": 12, 3");
  }
  const std::int64_t query = std::min(pair->first, last),
                     key = std::min(pair->second, applied_keys_ - 1);
  select_pair(context, query, key);
  show_region(context,
              region_around(context.session().region, query, key, applied_tokens_, applied_keys_));
  goto_.clear();
}

void MapView::draw_controls(ViewContext& context) {
  const ControlsRoom controls;
  auto state = context.state<MapState>();
  draw_title(context);
  next_control(7 * ImGui::GetFontSize());
  bool changed = draw_choice("##of", state.of, {"weight", "score", "content", "positional"});
  tooltip(
      "Weights are after the softmax, scores before it; content and positional term are the "
      "parts of the score");
  next_control(5 * ImGui::GetFontSize());
  changed |= draw_choice("##pool", state.pool, {"max", "mean"});
  tooltip(
      "How the pairs of a cell become one value while a cell holds several: their largest, in "
      "which thin lines stay, or their mean. `phasescope map` has the mean where --pool is not "
      "given; the command copied here gives it");
  next_control(7 * ImGui::GetFontSize());
  std::string shown = words_of_show(state.show);
  if (draw_choice("##show", shown, {"A", "A | B", "A | B | A-B"})) {
    state.show = shown == "A" ? "a" : shown == "A | B" ? "both" : "difference";
    changed = true;
  }
  tooltip("A is the selected head, B any head of any open model, on any text");
  changed |= draw_mean(context, state);
  next_control(5 * ImGui::GetFontSize());
  changed |= draw_colors(context, state);
  next_control(5 * ImGui::GetFontSize());
  draw_goto(context);
  draw_tools(context, Bar::goes_on);
  if (state.show != "a") changed |= draw_b(context, state);
  draw_openings(context);
  if (changed) context.set_state("Change the map", state, "map");
}

// --- pictures ---------------------------------------------------------------------------------

double MapView::ratio() const {
  const double rows = y_.high - y_.low;
  return rows > 0 ? (x_.high - x_.low) / rows : 1;
}

// The texts of the tokens where each has room for its own, by the size of the axes in the frame
// before.
void MapView::set_token_ticks(const ViewContext& context, Picture& picture, std::size_t model,
                              const Asked& about) const {
  picture.x_ticks = token_ticks(context, model, about, x_, picture.axes.x, false);
  picture.y_ticks = token_ticks(context, model, about, y_, picture.axes.y, true);
}

// What several maps have at one place: the pointer is over one of them alone.
std::string MapView::values_at(const Scene& scene, widgets::PlotPointer at) {
  if (scene.plots.size() < 2) return "";
  std::string words;
  constexpr std::array names{"A ", "B ", "A - B "};
  for (std::size_t n = 0; n < scene.plots.size(); ++n) {
    const auto value = widgets::cell_value(*scene.plots[n]->map, at);
    if (!value || *value == widgets::kMaskedCell) continue;
    words += (words.empty() ? "" : ", ") + (names[n] + widgets::short_number(*value));
  }
  return words;
}

void MapView::draw_one(ViewContext& context, const Scene& scene, std::size_t n, ImVec2 room,
                       std::size_t model) {
  const PlotSpec& plot = *scene.plots[n];
  Picture& picture = pictures_[scene.difference && n + 1 == scene.plots.size() ? 2 : n];
  if (picture.texture_version != picture.plot.version()) {
    picture.texture.set_values(plot.map->rows, plot.map->cols, plot.map->values);
    picture.texture_version = picture.plot.version();
  }
  const Asked& about = scene.maps[n < scene.maps.size() ? n : 0].answer->asked;
  set_token_ticks(context, picture, model, about);
  widgets::PlotDraw options;
  options.size = room;
  if (context.state<MapState>().square) {
    options.size = widgets::squared(ratio(), room, picture.labels);
  }
  options.texture = &picture.texture;
  options.link_x = &x_, options.link_y = &y_;
  options.notes = false, options.color_scale = false;
  options.axis_labels = scene.plots.size() == 1;
  if (!picture.x_ticks.empty()) options.x_ticks = &picture.x_ticks;
  if (!picture.y_ticks.empty()) options.y_ticks = &picture.y_ticks;
  const std::string pooled = words_of_pooling(scene.maps[0].answer->result, scene.difference);
  options.more_words = [&](widgets::PlotPointer at) {
    const auto query = static_cast<std::int64_t>(std::floor(at.y));
    const auto key = static_cast<std::int64_t>(std::floor(at.x));
    const std::string of_query = token_text(context, model, query, about);
    std::string words = values_at(scene, at);
    if (!of_query.empty()) {
      words += (words.empty() ? "query" : "; query") + in_quotes(of_query) + ", key" +
               in_quotes(token_text(context, model, key, about));
    }
    return words + (words.empty() || pooled.empty() ? "" : "\n") + pooled;
  };
  options.menu = [&] {
    draw_intervention_menu(context);
    ImGui::Separator();
    draw_menu_items(context);
  };
  const Selection& at = context.session().selection;
  const auto is_token_of_a = [&](std::int64_t place) {
    return same_token(context, scene.maps[0].model, model, place);
  };
  if (at.query && is_token_of_a(*at.query)) options.mark_y = static_cast<double>(*at.query) + 0.5;
  if (at.key && is_token_of_a(*at.key)) options.mark_x = static_cast<double>(*at.key) + 0.5;
  ImGui::PushID(static_cast<int>(n));
  const auto drawn = draw_figure(context, plot, options, model);
  ImGui::PopID();
  picture.axes = drawn.plot_size;
  picture.labels = {options.size.x - drawn.plot_size.x, options.size.y - drawn.plot_size.y};
  if (drawn.pointer) {
    pointer_text_ = widgets::cell_text(*plot.map, *drawn.pointer);
    if (!pointer_text_.empty() && !pooled.empty()) pointer_text_ += " (" + pooled + ")";
  }
  if (drawn.clicked && drawn.pointer) {
    const auto query = static_cast<std::int64_t>(std::floor(drawn.pointer->y));
    const auto key = static_cast<std::int64_t>(std::floor(drawn.pointer->x));
    if (is_token_of_a(query) && is_token_of_a(key)) {
      select_pair(context, query, key);
    } else {
      context.window.say("B reads other tokens there than A: choose the pair in A");
    }
  }
  if (drawn.double_clicked) show_region(context, {}), applied_tokens_ = 0;
  const int wanted = std::clamp(
      static_cast<int>(std::max(drawn.plot_size.x, drawn.plot_size.y)) / kCellStep * kCellStep,
      2 * kCellStep, kMostCells);
  if (std::abs(wanted - cells_) > kCellStep) {
    cells_ = wanted;
    ask(context);
  }
}

// One map with its scale, and the curves where there is room for them.
void MapView::draw_single(ViewContext& context, const Scene& scene, ImVec2 room) {
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const ImVec2 gap = ImGui::GetStyle().ItemSpacing;
  const bool below = room.y > line * kRoomForCurves, beside = below && room.x > line * 16;
  const float low = below ? line * kCurveHeight + gap.y : 0;
  const float side = beside ? line * kCurveWidth + gap.x : 0;
  ImVec2 size{room.x - widgets::color_scale_width() - gap.x - side, room.y - low};
  if (context.state<MapState>().square) size = widgets::squared(ratio(), size, pictures_[0].labels);
  const MapAnswer& answer = *scene.maps[0].answer;
  const auto& curves = profiles_.get(serials_of(&answer), [&] {
    return std::array<PlotSpec, 2>{map_profile(answer, false), map_profile(answer, true)};
  });
  const Dimmed dimmed(scene.old(0));
  widgets::PlotDraw options;
  options.notes = false;
  options.version = profiles_.version();
  ImGui::BeginGroup();
  if (ImPlot::BeginAlignedPlots("##aligned")) {
    draw_one(context, scene, 0, size, scene.maps[0].model);
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
    const ImVec2 size{room.x / static_cast<float>(columns) - gap.x,
                      room.y / static_cast<float>(rows) - ImGui::GetTextLineHeightWithSpacing() -
                          caption_height() - 2 * gap.y};
    const ImVec2 axes{size.x - widgets::color_scale_width(false), size.y};
    const float side =
        std::min(axes.x / static_cast<float>(std::clamp(ratio(), 0.125, 8.0)), axes.y);
    if (side > largest) largest = side, best = {columns, size};
  }
  const float least = kLeastMap * ImGui::GetFontSize();
  if (largest >= least) return best;
  const float wide = least + widgets::color_scale_width(false) + gap.x;
  best.columns = std::clamp(static_cast<int>(room.x / wide), 1, count);
  best.size = {room.x / static_cast<float>(best.columns) - gap.x, least};
  return best;
}

void MapView::draw_side_by_side(ViewContext& context, const Scene& scene, ImVec2 room) {
  const auto count = static_cast<int>(scene.plots.size());
  const Places places = places_of(count, room);
  const float scale = widgets::color_scale_width(false) + ImGui::GetStyle().ItemSpacing.x;
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
    const Picture& picture = pictures_[difference ? 2 : n];
    const ImVec2 axes{places.size.x - scale, places.size.y};
    {
      const Dimmed dimmed(scene.old(n));
      // The tokens that are known are those of the session's text.
      const Shown& shown = scene.maps[difference ? 0 : n];
      draw_one(context, scene, n, axes, shown.text.empty() ? shown.model : context.models());
      ImGui::SameLine();
      widgets::draw_color_scale(*scene.plots[n]->map, std::max(40.0F, picture.axes.y), false);
    }
    // A window of its own ends where the map does, and the words with it.
    ImGui::PushID(i);
    if (ImGui::BeginChild("caption", {places.size.x, caption_height()}, ImGuiChildFlags_None,
                          ImGuiWindowFlags_NoScrollbar)) {
      draw_folded_notes(caption_of(*scene.plots[n]));
    }
    ImGui::EndChild();
    ImGui::PopID();
    ImGui::EndGroup();
  }
}

// Why there is no A - B, where it is wanted.
void MapView::draw_obstacle(const Scene& scene) {
  if (!scene.obstacle.empty()) ImGui::TextWrapped("%s", scene.obstacle.c_str());
}

void MapView::draw_maps(ViewContext& context) {
  const Scene scene = scene_of(context);
  if (scene.maps.empty()) return;
  const MapResult& map = scene.maps[0].answer->result;
  // Cross attention has keys of its own.
  const std::int64_t tokens = map.tokens, keys = map.keys > 0 ? map.keys : tokens;
  follow_session(context, tokens, keys);
  draw_obstacle(scene);
  // Several have theirs under each.
  const std::vector<std::string> notes =
      scene.plots.size() == 1 ? scene.plots.front()->notes : std::vector<std::string>{};
  ImVec2 room = ImGui::GetContentRegionAvail();
  room.y -= ImGui::GetTextLineHeightWithSpacing() + widgets::notes_height(notes, room.x) +
            ImGui::GetStyle().ItemSpacing.y * 2;
  room.y = std::max(room.y, 80.0F);
  pointer_text_.clear();
  if (scene.plots.size() == 1) {
    draw_single(context, scene, room);
  } else {
    draw_side_by_side(context, scene, room);
  }
  draw_selection(context);
  widgets::draw_notes(notes);
  settle(context, tokens, keys);
}

// One line: what is under the mouse, or the marked pair with its tokens.
void MapView::draw_selection(ViewContext& context) {
  const Selection& at = context.session().selection;
  std::string words = pointer_text_;
  ImVec4 color = ImGui::GetStyleColorVec4(ImGuiCol_Text);
  if (words.empty() && at.query) {
    const auto model = static_cast<std::size_t>(at.model);
    words = "query " + std::to_string(*at.query) + in_quotes(token_text(context, model, *at.query));
    if (at.key) {
      words += ", key " + std::to_string(*at.key) + in_quotes(token_text(context, model, *at.key));
    }
  } else if (words.empty()) {
    words = "wheel: zoom   drag: move   double click: all";
    color = widgets::palette().quiet;
  }
  draw_cut_line(words, color);
}

void MapView::draw_content(ViewContext& context) {
  fit_to_text(context);
  draw_controls(context);
  if (context.models() == 0) {
    return widgets::draw_empty("The map of a head will be here. Tick a model, pick a head.");
  }
  for (const Side& side : sides(context)) {
    if (side.obstacle.empty()) {
      draw_question(context, question_of(context, side),
                    short_name(context.session(), context.session().models[side.model]));
    } else {
      ImGui::TextWrapped("%s", side.obstacle.c_str());
    }
  }
  draw_maps(context);
}

}  // namespace phasescope::app
