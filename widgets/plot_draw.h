#pragma once

#include <imgui.h>

#include <functional>
#include <optional>
#include <vector>

#include "widgets/color_scale.h"
#include "widgets/heatmap.h"
#include "widgets/plot_hover.h"
#include "widgets/plot_spec.h"

namespace phasescope::widgets {

struct PlotPointer {
  double x = 0, y = 0;
};

// A place that is marked by a ring around it.
struct PlotRing {
  double x = 0, y = 0;
  ImVec4 color;
};

// Limits that several plots share, so that zooming one zooms all; kept by the caller.
struct AxisLink {
  double low = 0, high = 1;
  bool operator==(const AxisLink&) const = default;
};

struct PlotDraw {
  ImVec2 size{-1, -1};                // negative: what is left
  HeatmapTexture* texture = nullptr;  // holds the values of plot.map already
  std::uint64_t version = 0;          // another one fits the axes to the data again
  AxisLink* link_x = nullptr;         // then the axes are not fitted
  AxisLink* link_y = nullptr;
  bool crosshair = true;                 // on maps
  std::optional<double> mark_x, mark_y;  // thin lines at the marked key and query
  bool axis_labels = true;
  bool downward = false;  // y grows downwards, as that of a map always does
  bool y_tick_labels = true;
  // In place of the figure's own, where they follow the zoom; kept by the caller.
  const std::vector<AxisTick>* x_ticks = nullptr;
  const std::vector<AxisTick>* y_ticks = nullptr;
  bool color_scale = true;  // beside maps; else the caller prints it
  bool square = false;      // cells of a map are as high as wide, in the size or less of it
  bool title = false;       // views have titles of their own
  bool notes = true;
  // What the pointer is at and what is selected, wherever: marked on axes of those coordinates.
  const Hover* hover = nullptr;
  const Hover* selected = nullptr;
  std::vector<PlotRing> rings = {};
  // A line more for the words at the pointer of a map: "key 3 is 'the'".
  std::function<std::string(PlotPointer)> more_words = {};
  // Items of the plot's context menu below its own ones.
  std::function<void()> menu = {};
  bool take_focus = false;  // then it is what keys are for
};

struct PlotDrawn {
  std::optional<PlotPointer> pointer;  // where the mouse is, in data units
  std::vector<NearPoint> near;         // the points there, of a plot without a map
  Hover hover;                         // what the pointer is at, in the axes' coordinates
  bool clicked = false;                // without dragging
  bool double_clicked = false;         // or all was asked for from the menu or by a key
  bool keyed = false;                  // zoomed or moved by keys in this frame
  ImVec2 plot_size{0, 0};              // pixels inside the axes
  AxisLink x, y;                       // the limits of the axes
  bool fitted = false;                 // to the data, in this frame
  bool focused = false;                // keys are for it
};

// The twin of svg_of in the window: title, legend, plot, notes. The same words and numbers. The
// pointer is answered by the values under it, the right button by a menu of the plot's own; what
// the keys do while it has the focus is in focus_keys.h.
PlotDrawn draw_plot(const PlotSpec& plot, const PlotDraw& options);

// The size of a map's axes, labels and all, within which its cells are square: `ratio` is columns
// by rows, `labels` what the labels take. As large as `room` where it would be a thread.
ImVec2 squared(double ratio, ImVec2 room, ImVec2 labels);

// Lines of small quiet text, wrapped.
void draw_notes(const std::vector<std::string>& notes);
// How many pixels draw_notes will take at this width.
float notes_height(const std::vector<std::string>& notes, float width);

// The value under the pointer as "query 12, key 3: 0.25", or that the cell is masked.
std::string cell_text(const MapSpec& map, PlotPointer pointer);
// The value of the cell at the pointer; nothing outside.
std::optional<float> cell_value(const MapSpec& map, PlotPointer pointer);

}  // namespace phasescope::widgets
