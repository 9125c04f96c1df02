#include "widgets/plot_draw.h"

#include <implot.h>
#include <implot_internal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "widgets/focus_keys.h"
#include "widgets/map_colors.h"
#include "widgets/plot_series.h"
#include "widgets/plot_table.h"
#include "widgets/scaled.h"
#include "widgets/series_marks.h"
#include "widgets/theme.h"

namespace phasescope::widgets {
namespace {

constexpr float kSmall = 0.87F;
// In font sizes: on a shorter axis the labels that ImPlot chooses overlap.
constexpr float kNarrowAxis = 9;
// Below this ratio of its sides a map is not made square: it is a strip, and would be a thread.
constexpr double kLeastRatio = 0.125;

int format_tick(double value, char* buffer, int size, void*) {
  return std::snprintf(buffer, static_cast<std::size_t>(size), "%s", short_number(value).c_str());
}

double row_end(const MapSpec& map) { return map.row_end > 0 ? map.row_end : map.rows; }
double col_end(const MapSpec& map) { return map.col_end > 0 ? map.col_end : map.cols; }

void draw_map(const MapSpec& map, HeatmapTexture& texture) {
  const std::uint64_t picture = texture.colored(map);
  if (!picture) return;
  const auto& platform = ImGui::GetPlatformIO();
  ImDrawList* list = ImPlot::GetPlotDrawList();
  if (platform.DrawCallback_SetSamplerNearest) {
    list->AddCallback(platform.DrawCallback_SetSamplerNearest, nullptr);
  }
  ImPlot::PlotImage("##map", static_cast<ImTextureID>(picture), {map.col_begin, row_end(map)},
                    {col_end(map), map.row_begin});
  if (platform.DrawCallback_SetSamplerLinear) {
    list->AddCallback(platform.DrawCallback_SetSamplerLinear, nullptr);
  }
}

// The strip of numbers beside the map, in the room that the last tick's label leaves; returns what
// is said of the one under the pointer.
std::string draw_margin(const MapSpec& map) {
  std::string words;
  if (map.margin.empty()) return words;
  const ImVec2 origin = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const float left = origin.x + size.x + 4, right = left + std::round(ImGui::GetFontSize() * 0.7F);
  const double step = (row_end(map) - map.row_begin) / static_cast<double>(map.margin.size());
  const auto pixel = [&](std::size_t row) {
    const double at = map.row_begin + step * static_cast<double>(row);
    return std::clamp(ImPlot::PlotToPixels(0, at).y, origin.y, origin.y + size.y);
  };
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ImVec2 mouse = ImGui::GetMousePos();
  const bool over = mouse.x >= left && mouse.x < right && ImGui::IsWindowHovered();
  for (std::size_t row = 0; row < map.margin.size(); ++row) {
    const float top = pixel(row), bottom = pixel(row + 1);
    if (bottom <= top) continue;
    const double value = static_cast<double>(map.margin[row]);
    list->AddRectFilled({left, top}, {right, bottom},
                        color_u32(cell_color(map, value, window_ground())));
    if (over && mouse.y >= top && mouse.y < bottom) {
      words = map.row_name + " " + short_number(std::floor(row_place(map, static_cast<int>(row)))) +
              ": " + map.margin_name + " " + short_number(value);
    }
  }
  list->AddRect({left, pixel(0)}, {right, pixel(map.margin.size())},
                ImGui::GetColorU32(ImGuiCol_Border));
  return words;
}

struct AxisSetup {
  ImAxis which;
  ValueRange range;
  AxisLink* link;
  bool refit, reversed, labelled, tick_labels = true;
  const std::vector<AxisTick>* ticks = nullptr;  // in place of the axis's own
  float pixels = 0;                              // about as long as the axis is
  bool limited = true;                           // else it has the limits that it had
  double zoom = 1, by = 0;                       // asked for by keys
};

// The limits that keys ask for, of a linked axis in its link; nothing where none does.
std::optional<ValueRange> keyed_limits(const AxisSpec& axis, const AxisSetup& setup) {
  if (setup.refit || (setup.zoom == 1 && setup.by == 0)) return std::nullopt;
  const ImPlotRange& now = ImPlot::GetCurrentPlot()->Axes[setup.which].Range;
  const ValueRange before =
      setup.link ? ValueRange{setup.link->low, setup.link->high} : ValueRange{now.Min, now.Max};
  const double by = setup.reversed ? -setup.by : setup.by;
  const ValueRange limits = moved_limits(before, axis.scale, setup.zoom, by);
  if (setup.link) *setup.link = {limits.low, limits.high};
  return limits;
}

// Every so many of the labels have room beside each other, were they spread evenly over the axis.
std::size_t tick_step(const std::vector<AxisTick>& ticks, const AxisSpec& axis,
                      const AxisSetup& setup) {
  const double low = setup.link ? setup.link->low : setup.range.low;
  const double high = setup.link ? setup.link->high : setup.range.high;
  if (setup.pixels <= 0 || axis.scale == Scale::log10) return 1;
  float taken = 0;
  for (const AxisTick& tick : ticks) {
    if (tick.at < low || tick.at > high) continue;
    taken += setup.which == ImAxis_X1 ? ImGui::CalcTextSize(tick.label.c_str()).x + 6
                                      : ImGui::GetFontSize();
  }
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(taken / setup.pixels)));
}

// Ticks of an axis along the bottom that is narrower than ImPlot's own labels, which would stand
// over each other: as many at round places as have room, at least one. A wider axis has none of
// these.
std::vector<AxisTick> few_ticks(const AxisSpec& axis, const AxisSetup& setup) {
  const bool narrow = setup.which == ImAxis_X1 && setup.pixels < ImGui::GetFontSize() * kNarrowAxis;
  if (!narrow || axis.scale == Scale::log10 || !setup.tick_labels) return {};
  const double low = setup.link ? setup.link->low : setup.range.low;
  const double high = setup.link ? setup.link->high : setup.range.high;
  for (int wanted = 3; wanted > 0; --wanted) {
    auto ticks = nice_ticks(low, high, axis.scale, wanted);
    float taken = 0;
    for (const AxisTick& tick : ticks) taken += ImGui::CalcTextSize(tick.label.c_str()).x + 8;
    if (taken < setup.pixels || wanted == 1) {
      if (ticks.size() > 1 && taken >= setup.pixels) ticks.resize(1);
      return ticks;
    }
  }
  return {};
}

void set_axis(const AxisSpec& axis, const AxisSetup& setup) {
  const ImAxis which = setup.which;
  ImPlotAxisFlags flags = ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_NoSideSwitch;
  if (setup.reversed) flags |= ImPlotAxisFlags_Invert;
  if (!setup.tick_labels) flags |= ImPlotAxisFlags_NoTickLabels;
  const bool labelled = setup.labelled && !axis.label.empty();
  ImPlot::SetupAxis(which, labelled ? axis.label.c_str() : nullptr, flags);
  if (axis.scale == Scale::log10) ImPlot::SetupAxisScale(which, ImPlotScale_Log10);
  const std::optional<ValueRange> keyed = keyed_limits(axis, setup);
  if (setup.link) {
    ImPlot::SetupAxisLinks(which, &setup.link->low, &setup.link->high);
  } else if (keyed) {
    ImPlot::SetupAxisLimits(which, keyed->low, keyed->high, ImPlotCond_Always);
  } else if (setup.limited) {
    ImPlot::SetupAxisLimits(which, setup.range.low, setup.range.high,
                            setup.refit ? ImPlotCond_Always : ImPlotCond_Once);
  }
  ImPlot::SetupAxisFormat(which, format_tick);
  const std::vector<AxisTick> few = few_ticks(axis, setup);
  const std::vector<AxisTick>& ticks = setup.ticks ? *setup.ticks : few.empty() ? axis.ticks : few;
  if (ticks.empty()) return;
  std::vector<double> places;
  std::vector<const char*> labels;
  const std::size_t step = tick_step(ticks, axis, setup);
  for (std::size_t n = 0; n < ticks.size(); n += step) {
    const AxisTick& tick = ticks[n];
    places.push_back(tick.at);
    labels.push_back(tick.label.c_str());
  }
  ImPlot::SetupAxisTicks(which, places.data(), static_cast<int>(places.size()), labels.data());
}

// The version of the data that the axes were fitted to, and 1; 0 where they are to be fitted.
int* fitted_version() {
  return ImGui::GetStateStorage()->GetIntRef(ImGui::GetID("fitted version"));
}

// True when the data are not those that the axes were fitted to.
bool must_refit(std::uint64_t version) {
  const int mark = static_cast<int>(version & 0x7fffffff) + 1;
  return std::exchange(*fitted_version(), mark) != mark;
}

void draw_mark(double at, bool vertical, const ImVec4& color) {
  const ImVec2 origin = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  const ImVec2 pixel = ImPlot::PlotToPixels(vertical ? at : 0, vertical ? 0 : at);
  const ImU32 ink = ImGui::ColorConvertFloat4ToU32(color);
  ImPlot::PushPlotClipRect();
  const ImVec2 begin = vertical ? ImVec2(pixel.x, origin.y) : ImVec2(origin.x, pixel.y);
  const ImVec2 end{begin.x + (vertical ? 0 : size.x), begin.y + (vertical ? size.y : 0)};
  ImPlot::GetPlotDrawList()->AddLine(begin, end, ink, scaled(1));
  ImPlot::PopPlotClipRect();
}

void draw_marks(const PlotSpec& plot, const Hover& at, const ImVec4& color) {
  const bool cells = plot.map.has_value();
  if (const auto x = marked_place(at, plot.x, cells)) draw_mark(*x, true, color);
  if (const auto y = marked_place(at, plot.y, cells)) draw_mark(*y, false, color);
}

void draw_ring(const PlotRing& ring) {
  const ImVec2 at = ImPlot::PlotToPixels(ring.x, ring.y);
  if (!std::isfinite(at.x) || !std::isfinite(at.y)) return;
  ImPlot::PushPlotClipRect();
  ImPlot::GetPlotDrawList()->AddCircle(at, scaled(6), ImGui::ColorConvertFloat4ToU32(ring.color), 0,
                                       scaled(2));
  ImPlot::PopPlotClipRect();
}

// A label that is longer than its axis stands above the plot instead.
bool label_fits(const AxisSpec& axis, float height) {
  return ImGui::CalcTextSize(axis.label.c_str()).x + ImGui::GetFontSize() * 3 < height;
}

// Of both axes, about.
float labels_room() { return ImGui::GetFontSize() * 3; }

// Whether the axes are fitted to the data, and the pixels that they have for it.
struct Fitting {
  bool now = false;
  ImVec2 frame;
};

// Equal axes are fitted to the frame too, which is known when it was drawn with its labels: in
// another size they are fitted for some frames, and then left to whoever zooms. Labels change with
// the limits, so that it is the narrowest frame that the data have room in.
Fitting fitting_of_equal(std::uint64_t version, ImVec2 size) {
  constexpr int kFrames = 4;
  const auto pixels =
      static_cast<std::uint64_t>(size.x) * 8192 + static_cast<std::uint64_t>(size.y);
  const bool anew = must_refit(version + pixels);
  ImGuiStorage* kept = ImGui::GetStateStorage();
  const ImGuiID across = ImGui::GetID("frame across"), up = ImGui::GetID("frame up");
  if (anew) kept->SetFloat(across, size.x), kept->SetFloat(up, size.y);
  const float about = anew ? labels_room() : 0;
  int* const left = kept->GetIntRef(ImGui::GetID("fittings left"));
  if (anew) *left = kFrames;
  return {*left > 0 && (*left)-- > 0, {kept->GetFloat(across) - about, kept->GetFloat(up) - about}};
}

void keep_frame(ImVec2 frame) {
  ImGuiStorage* kept = ImGui::GetStateStorage();
  const ImGuiID across = ImGui::GetID("frame across"), up = ImGui::GetID("frame up");
  kept->SetFloat(across, std::min(kept->GetFloat(across), frame.x));
  kept->SetFloat(up, std::min(kept->GetFloat(up), frame.y));
}

// Dear ImGui counts what has the focus by keys as hovered, wherever the mouse is.
bool pointer_inside() {
  const ImVec2 origin = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  return ImPlot::IsPlotHovered() &&
         ImGui::IsMouseHoveringRect(origin, {origin.x + size.x, origin.y + size.y});
}

// Returns what is to be said at the pointer outside of the axes. `across`: what the labels beside
// the plot take of its width.
std::string draw_inside(const PlotSpec& plot, const PlotDraw& options, const Fitting& fitting,
                        const FigureKeys& keys, ImVec2 size, float across) {
  const bool refit = fitting.now;
  const float labels = labels_room();
  const AxisRanges ranges = axis_ranges(plot, fitting.frame.x, fitting.frame.y);
  // Of equal axes x follows y in ImPlot, unless its limits are set.
  set_axis(plot.x,
           {ImAxis_X1, ranges.x, options.link_x, refit, false, options.axis_labels, true,
            options.x_ticks, size.x - across, !plot.equal_axes || refit, keys.zoom, keys.right});
  set_axis(plot.y,
           {ImAxis_Y1, ranges.y, options.link_y, refit, plot.map.has_value() || options.downward,
            options.axis_labels && label_fits(plot.y, size.y), options.y_tick_labels,
            options.y_ticks, size.y - labels, true, keys.zoom, keys.up});
  ImPlot::SetupFinish();
  for (const Marker& marker : plot.markers) shade_beyond(marker);
  if (plot.map && options.texture) draw_map(*plot.map, *options.texture);
  std::string words = plot.map ? draw_margin(*plot.map) : "";
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    draw_band(plot.series[i], static_cast<int>(i), plot.x.scale, plot.y.scale);
  }
  const std::vector<PointShape> shapes = shapes_of(plot);
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    draw_series(plot.series[i], static_cast<int>(i), shapes[i]);
  }
  draw_series_marks(plot, shapes);
  int line = 0;
  for (const Marker& marker : plot.markers) line = (line + draw_marker(marker, line)) % 4;
  if (options.selected) draw_marks(plot, *options.selected, palette().warn);
  if (options.mark_x) draw_mark(*options.mark_x, true, palette().warn);
  if (options.mark_y) draw_mark(*options.mark_y, false, palette().warn);
  for (const PlotRing& ring : options.rings) draw_ring(ring);
  if (options.hover && !pointer_inside()) draw_marks(plot, *options.hover, palette().accent);
  return words;
}

void show_cell(const PlotSpec& plot, const PlotDraw& options, PlotPointer at) {
  const std::string words = cell_text(*plot.map, at);
  if (words.empty() || !ImGui::BeginTooltip()) return;
  ImGui::TextUnformatted(words.c_str());
  if (options.more_words) {
    if (const std::string more = options.more_words(at); !more.empty()) {
      ImGui::TextColored(palette().quiet, "%s", more.c_str());
    }
  }
  ImGui::EndTooltip();
}

// As many points as are read at a glance, those nearest to the pointer.
constexpr std::size_t kPointsShown = 14;

std::vector<NearPoint> shown_points(std::vector<NearPoint> points) {
  if (points.size() <= kPointsShown) return points;
  std::ranges::sort(points, {}, &NearPoint::away);
  points.resize(kPointsShown);
  std::ranges::sort(points, {}, &NearPoint::series);
  return points;
}

std::string point_name(const Series& series, const NearPoint& point) {
  const std::string name = point.point < series.names.size() ? series.names[point.point] : "";
  if (name.empty() || series.label.empty()) return series.label + name;
  return series.label + " " + name;
}

// A line a point: its curve, its value with the interval, and its place unless that is said above.
void draw_point_row(const PlotSpec& plot, const NearPoint& point, bool with_place) {
  const Series& series = plot.series[point.series];
  const bool downward = runs_downward(plot);
  ImGui::TableNextColumn();
  draw_swatch(series, shapes_of(plot)[point.series]);
  ImGui::SameLine(0, 6);
  ImGui::TextUnformatted(point_name(series, point).c_str());
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(value_text(series, point, downward).c_str());
  if (!with_place) return;
  ImGui::TableNextColumn();
  ImGui::TextColored(palette().quiet, "at %s", place_text(series, point, downward).c_str());
}

void show_points(const PlotSpec& plot, const std::vector<NearPoint>& points) {
  if (points.empty() || !ImGui::BeginTooltip()) return;
  const bool downward = runs_downward(plot);
  const auto place = [&](const NearPoint& point) {
    return place_text(plot.series[point.series], point, downward);
  };
  const bool one_place =
      std::ranges::all_of(points, [&](const auto& p) { return place(p) == place(points[0]); });
  if (one_place) {
    ImGui::TextColored(palette().quiet, "%s %s", (downward ? plot.y : plot.x).label.c_str(),
                       place(points[0]).c_str());
  }
  const auto shown = shown_points(points);
  if (ImGui::BeginTable("points", one_place ? 2 : 3, ImGuiTableFlags_SizingFixedFit)) {
    for (const NearPoint& point : shown) draw_point_row(plot, point, !one_place);
    ImGui::EndTable();
  }
  if (shown.size() < points.size()) {
    ImGui::TextColored(palette().quiet, "and %zu more", points.size() - shown.size());
  }
  ImGui::EndTooltip();
}

PlotPixels pixels_of(const PlotSpec& plot, bool downward) {
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  const ImVec2 origin = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
  PlotPixels pixels;
  pixels.x = {plot.x.scale, limits.X.Min, limits.X.Max, origin.x, origin.x + size.x};
  pixels.y = {plot.y.scale, limits.Y.Min, limits.Y.Max, origin.y + size.y, origin.y};
  if (downward) std::swap(pixels.y.begin, pixels.y.end);
  return pixels;
}

// Finds what the pointer is at, and marks it in the plot itself.
void point_at(const PlotSpec& plot, const PlotDraw& options, PlotDrawn& drawn) {
  if (plot.map) {
    set_coordinate(drawn.hover, plot.x, drawn.pointer->x, true);
    set_coordinate(drawn.hover, plot.y, drawn.pointer->y, true);
    return;
  }
  const ImVec2 mouse = ImGui::GetMousePos();
  drawn.near = near_points(plot, pixels_of(plot, options.downward), {mouse.x, mouse.y});
  const NearPoint* best = nearest(drawn.near);
  if (!best) return;
  set_coordinate(drawn.hover, plot.x, best->x, false);
  set_coordinate(drawn.hover, plot.y, best->y, false);
  const bool downward = runs_downward(plot);
  if (plot.series[best->series].kind != SeriesKind::scatter) {
    draw_mark(downward ? best->y : best->x, !downward, palette().accent);
  }
  for (const NearPoint& point : shown_points(drawn.near)) {
    draw_ring({point.x, point.y, ImGui::GetStyleColorVec4(ImGuiCol_Text)});
  }
}

// ImPlot's own menu changes axes for good, where no undo finds it.
void draw_menu(const PlotSpec& plot, const PlotDraw& options, PlotDrawn& drawn, bool wanted) {
  if (wanted) ImGui::OpenPopup("plot menu");
  int* const fitted = fitted_version();  // of the window around the popup
  if (!ImGui::BeginPopup("plot menu")) return;
  if (ImGui::MenuItem("Show all again", "double click, 0")) {
    drawn.double_clicked = true;
    *fitted = 0;
  }
  if (ImGui::MenuItem("Copy the numbers (CSV)")) ImGui::SetClipboardText(csv_of(plot).c_str());
  if (options.menu) options.menu();
  ImGui::EndPopup();
}

PlotDrawn draw_axes(const PlotSpec& plot, const PlotDraw& options, ImVec2 size) {
  PlotDrawn drawn;
  const unsigned linked = options.link_x ? 1 : 0;  // axes that are not any more are fitted
  const std::uint64_t version = 2 * options.version + linked;
  const Fitting fitting =
      plot.equal_axes ? fitting_of_equal(version, size) : Fitting{must_refit(version), size};
  const ImPlotFlags flags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                            ImPlotFlags_NoMenus | (plot.equal_axes ? ImPlotFlags_Equal : 0) |
                            (plot.map && options.crosshair ? ImPlotFlags_Crosshairs : 0);
  // Known from the frame before: names of layers and heads take more than numbers do.
  ImGuiStorage* kept = ImGui::GetStateStorage();
  const ImGuiID beside_plot = ImGui::GetID("labels beside");
  const float across = kept->GetFloat(beside_plot, labels_room());
  const ImGuiID id = ImGui::GetID("##plot");
  const FigureKeys keys = figure_keys(id);
  drawn.focused = has_focus(id), drawn.keyed = keys.move();
  // A frame around axes that have one already is too much.
  ImGui::PushStyleVar(ImGuiStyleVar_FrameBorderSize, 0.0F);
  // Half of the last tick's label stands beyond the axis.
  const ImVec2 padding = ImPlot::GetStyle().PlotPadding;
  ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, {ImGui::GetFontSize() * 1.3F, padding.y});
  if (!ImPlot::BeginPlot("##plot", size, flags)) {
    ImPlot::PopStyleVar();
    ImGui::PopStyleVar();
    if (options.take_focus) take_focus(id);
    return drawn;
  }
  const std::string beside = draw_inside(plot, options, fitting, keys, size, across);
  bool menu = keys.menu;
  if (pointer_inside()) {
    const ImPlotPoint at = ImPlot::GetPlotMousePos();
    drawn.pointer = PlotPointer{at.x, at.y};
    const auto stayed = [](ImGuiMouseButton button) {
      const ImVec2 dragged = ImGui::GetMouseDragDelta(button, 0);
      return ImGui::IsMouseReleased(button) && std::abs(dragged.x) + std::abs(dragged.y) < 4;
    };
    drawn.clicked = stayed(ImGuiMouseButton_Left);
    drawn.double_clicked = ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left);
    menu = menu || stayed(ImGuiMouseButton_Right);
    point_at(plot, options, drawn);
  }
  drawn.plot_size = ImPlot::GetPlotSize(), drawn.fitted = fitting.now;
  const ImPlotRect limits = ImPlot::GetPlotLimits();
  drawn.x = {limits.X.Min, limits.X.Max}, drawn.y = {limits.Y.Min, limits.Y.Max};
  const ImRect frame = ImPlot::GetCurrentPlot()->FrameRect;
  ImPlot::EndPlot();
  if (options.take_focus) take_focus(id);
  draw_focus(id, frame.Min, frame.Max);
  drawn.double_clicked = drawn.double_clicked || keys.fit;
  if (drawn.double_clicked) *fitted_version() = 0;
  if (plot.equal_axes) keep_frame(drawn.plot_size);
  if (drawn.plot_size.x > 0) kept->SetFloat(beside_plot, size.x - drawn.plot_size.x);
  ImPlot::PopStyleVar();
  ImGui::PopStyleVar();
  if (!beside.empty()) ImGui::SetTooltip("%s", beside.c_str());
  if (drawn.pointer && plot.map) show_cell(plot, options, *drawn.pointer);
  if (drawn.pointer && !plot.map) show_points(plot, drawn.near);
  draw_menu(plot, options, drawn, menu);
  return drawn;
}

}  // namespace

void draw_notes(const std::vector<std::string>& notes) {
  if (notes.empty()) return;
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * kSmall);
  ImGui::PushStyleColor(ImGuiCol_Text, palette().quiet);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {0, 1});
  for (const std::string& note : notes) {
    ImGui::PushTextWrapPos(0.0F);
    ImGui::TextUnformatted(note.c_str());
    ImGui::PopTextWrapPos();
  }
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  ImGui::PopFont();
}

float notes_height(const std::vector<std::string>& notes, float width) {
  float height = 0;
  ImGui::PushFont(nullptr, ImGui::GetStyle().FontSizeBase * kSmall);
  for (const std::string& note : notes) {
    height += ImGui::CalcTextSize(note.c_str(), nullptr, false, std::max(20.0F, width)).y + 1;
  }
  ImGui::PopFont();
  return height;
}

ImVec2 squared(double ratio, ImVec2 room, ImVec2 labels) {
  if (!(ratio >= kLeastRatio && ratio <= 1 / kLeastRatio)) return room;
  const auto wide = static_cast<float>(ratio);
  const float high = std::min(room.y - labels.y, (room.x - labels.x) / wide);
  return {high * wide + labels.x, high + labels.y};
}

namespace {

struct CellPlace {
  double row_step, col_step;
  int row, col;
};

std::optional<CellPlace> cell_at(const MapSpec& map, PlotPointer pointer) {
  CellPlace at{(row_end(map) - map.row_begin) / std::max(1, map.rows),
               (col_end(map) - map.col_begin) / std::max(1, map.cols), 0, 0};
  at.row = static_cast<int>(std::floor((pointer.y - map.row_begin) / at.row_step));
  at.col = static_cast<int>(std::floor((pointer.x - map.col_begin) / at.col_step));
  const bool inside = at.row >= 0 && at.col >= 0 && at.row < map.rows && at.col < map.cols;
  return inside && !map.values.empty() ? std::optional(at) : std::nullopt;
}

}  // namespace

std::optional<float> cell_value(const MapSpec& map, PlotPointer pointer) {
  const auto at = cell_at(map, pointer);
  if (!at) return std::nullopt;
  return map.values[static_cast<std::size_t>(at->row) * map.cols + at->col];
}

std::string cell_text(const MapSpec& map, PlotPointer pointer) {
  const auto at = cell_at(map, pointer);
  if (!at) return "";
  const auto [row_step, col_step, row, col] = *at;
  const float value = map.values[static_cast<std::size_t>(row) * map.cols + col];
  const auto place = [](double begin, double step) {
    const auto first = static_cast<long>(std::floor(begin)),
               last = static_cast<long>(std::ceil(begin + step)) - 1;
    return last <= first ? std::to_string(first)
                         : std::to_string(first) + ".." + std::to_string(last);
  };
  const bool samples = !map.samples.empty();  // a cell is one place, whatever it covers
  const std::string where = map.row_name + " " +
                            place(row_place(map, row), samples ? 1 : row_step) + ", " +
                            map.col_name + " " + place(col_place(map, col), samples ? 1 : col_step);
  if (value == kMaskedCell) return where + ": masked (the query cannot see later keys)";
  if (std::isnan(value)) return where + ": NaN, not a number";
  return where + ": " + (map.value_label.empty() ? "" : map.value_label + " ") +
         short_number(value);
}

namespace {

// The plot itself keeps most of the height.
int lines_of_legend(const PlotDraw& options) {
  const float height = options.size.y > 0 ? options.size.y : ImGui::GetContentRegionAvail().y;
  return std::max(2, static_cast<int>(0.3F * height / ImGui::GetTextLineHeightWithSpacing()));
}

// What the labels take is known when they were drawn: it is that of the frame before.
PlotDrawn draw_square(const PlotSpec& plot, const PlotDraw& options, ImVec2 room) {
  if (!options.square || !plot.map) return draw_axes(plot, options, room);
  const float about = ImGui::GetFontSize() * 3.2F;
  ImGuiStorage* kept = ImGui::GetStateStorage();
  const ImGuiID across = ImGui::GetID("labels across"), below = ImGui::GetID("labels below");
  const ImVec2 labels{kept->GetFloat(across, about), kept->GetFloat(below, about)};
  const double ratio = static_cast<double>(plot.map->cols) / std::max(1, plot.map->rows);
  const ImVec2 size = squared(ratio, room, labels);
  const PlotDrawn drawn = draw_axes(plot, options, size);
  if (drawn.plot_size.x <= 0) return drawn;
  kept->SetFloat(across, size.x - drawn.plot_size.x);
  kept->SetFloat(below, size.y - drawn.plot_size.y);
  return drawn;
}

}  // namespace

PlotDrawn draw_plot(const PlotSpec& plot, const PlotDraw& options) {
  ImGui::PushID(plot.id.c_str());
  if (options.title) ImGui::TextUnformatted(plot.title.c_str());
  draw_legend(plot, lines_of_legend(options));
  const ImVec2 room = ImGui::GetContentRegionAvail();
  ImVec2 size{options.size.x > 0 ? options.size.x : room.x,
              options.size.y > 0 ? options.size.y : room.y};
  if (options.notes && options.size.y <= 0 && !plot.notes.empty()) {
    size.y -= notes_height(plot.notes, room.x) + ImGui::GetStyle().ItemSpacing.y;
  }
  const float least = ImGui::GetFontSize() * 6;
  size.y = std::max(size.y, least);
  if (options.axis_labels && !plot.y.label.empty() && !label_fits(plot.y, size.y)) {
    draw_notes({plot.y.label});
    size.y = std::max(least, size.y - notes_height({plot.y.label}, room.x));
  }
  const bool scale = plot.map && options.color_scale;
  const float scale_width = scale ? color_scale_width() : 0;
  const PlotDrawn drawn = draw_square(plot, options, {size.x - scale_width, size.y});
  if (scale) {
    ImGui::SameLine();
    const float high =
        drawn.plot_size.y > 0 ? drawn.plot_size.y : size.y - ImGui::GetFontSize() * 3;
    draw_color_scale(*plot.map, high);
  }
  if (options.notes) draw_notes(plot.notes);
  ImGui::PopID();
  return drawn;
}

}  // namespace phasescope::widgets
