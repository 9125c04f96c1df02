#pragma once
// What the keys do to a figure, a text or a grid of heads that has the focus, so that nothing in a
// view needs a mouse.
#include <imgui.h>

#include <span>

#include "widgets/plot_spec.h"

namespace phasescope::widgets {

// One line of the window's help: "+  -" and what they do.
struct KeyHelp {
  const char *keys, *does;
};
// All keys of this file, as they are told of.
std::span<const KeyHelp> focus_keys_help();

// True while the item has the focus, seen or not: a click gives it too.
bool has_focus(ImGuiID item);
// Gives it to the item that was drawn last, scrolls to it and lets it be seen.
void take_focus(ImGuiID item);
// A frame around it from corner to corner, while it has the focus by keys.
void draw_focus(ImGuiID item, ImVec2 low, ImVec2 high);

// Whether the menu key or Shift+F10 asks for the menu of this item in this frame.
bool asks_for_menu(ImGuiID item);

// Steps of the arrow keys to the right and downwards, while the item has the focus, which they then
// do not move. Those with Ctrl, Alt or Shift are other keys.
struct ArrowStep {
  int right = 0, down = 0;
  bool operator==(const ArrowStep&) const = default;
};
ArrowStep arrow_step(ImGuiID item);
// The same of left and right alone: up and down move the focus.
int step_aside(ImGuiID item);

// What is asked of a figure in this frame.
struct FigureKeys {
  double zoom = 1;           // the new length of both axes, of the old one
  double right = 0, up = 0;  // in lengths of the axes
  bool fit = false, menu = false;
  bool move() const { return zoom != 1 || right != 0 || up != 0; }
};
FigureKeys figure_keys(ImGuiID figure);

// Limits of an axis, `zoom` times as long around their middle and moved by `by` of their length; on
// a log axis in its logarithms.
ValueRange moved_limits(ValueRange limits, Scale scale, double zoom, double by);

}  // namespace phasescope::widgets
