#include "widgets/focus_keys.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

namespace phasescope::widgets {
namespace {

// Of the axes' lengths: what one key zooms and moves by.
constexpr double kCloser = 0.8, kStep = 0.1;

constexpr KeyHelp kHelp[] = {
    {"Tab, Shift+Tab", "To the next control, figure or text; Space or Enter presses it"},
    {"+  -", "In a figure: zoom in, zoom out"},
    {"Arrow keys",
     "In a figure: move what it shows. In Text: select the token beside. In Arcs: up "
     "and down the query, left and right the key. In Heads: select the head beside. In a table: to "
     "the row above and below, from the first to the titles, which sort; to the cell beside"},
    {"0", "In a figure: show all again"},
    {"Menu, Shift+F10", "The context menu of a figure, a head or a row of a table"},
};

// As the keyboard has them: '+' is another key on each, and on the block of digits.
bool is_typed(char wanted) {
  return std::ranges::any_of(ImGui::GetIO().InputQueueCharacters, [wanted](ImWchar typed) {
    return typed == static_cast<ImWchar>(wanted);
  });
}

ArrowStep pressed_arrows(ImGuiID item) {
  if (!has_focus(item) || (ImGui::GetIO().KeyMods & ImGuiMod_Mask_) != 0) return {};
  const auto pressed = [](ImGuiKey key) { return ImGui::IsKeyPressed(key) ? 1 : 0; };
  return {pressed(ImGuiKey_RightArrow) - pressed(ImGuiKey_LeftArrow),
          pressed(ImGuiKey_DownArrow) - pressed(ImGuiKey_UpArrow)};
}

// What the keys of this frame would do to the focus they do not.
void keep_focus() {
  ImGui::NavMoveRequestCancel();
  ImGui::SetNavCursorVisible(true);
}

}  // namespace

std::span<const KeyHelp> focus_keys_help() { return kHelp; }

bool has_focus(ImGuiID item) {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  return item != 0 && g.NavId == item && g.NavWindow && g.NavWindow == g.CurrentWindow &&
         !g.IO.WantTextInput;
}

void take_focus(ImGuiID item) {
  ImGuiWindow* window = ImGui::GetCurrentWindow();
  ImGui::FocusWindow(window);
  ImGui::SetFocusID(item, window);
  ImGui::SetNavCursorVisible(true);
  ImGui::ScrollToItem();
}

void draw_focus(ImGuiID item, ImVec2 low, ImVec2 high) {
  ImGui::RenderNavCursor({low, high}, item);
}

bool asks_for_menu(ImGuiID item) {
  return has_focus(item) && ImGui::GetCurrentContext()->NavOpenContextMenuItemId == item;
}

ArrowStep arrow_step(ImGuiID item) {
  const ArrowStep step = pressed_arrows(item);
  if (step != ArrowStep{}) keep_focus();
  return step;
}

int step_aside(ImGuiID item) {
  const int step = pressed_arrows(item).right;
  if (step != 0) keep_focus();
  return step;
}

FigureKeys figure_keys(ImGuiID figure) {
  FigureKeys keys;
  if (!has_focus(figure)) return keys;
  const ArrowStep step = arrow_step(figure);
  keys.right = kStep * step.right, keys.up = -kStep * step.down;
  keys.menu = asks_for_menu(figure);
  if (is_typed('+') || is_typed('=')) keys.zoom = kCloser;  // '+' without Shift on many keyboards
  if (is_typed('-')) keys.zoom = 1 / kCloser;
  keys.fit = is_typed('0');
  if (keys.move() || keys.fit) ImGui::SetNavCursorVisible(true);
  return keys;
}

ValueRange moved_limits(ValueRange limits, Scale scale, double zoom, double by) {
  const bool log = scale == Scale::log10 && limits.low > 0;
  double low = limits.low, high = limits.high;
  if (log) low = std::log10(low), high = std::log10(high);
  const double middle = (low + high) / 2 + by * (high - low), half = zoom * (high - low) / 2;
  low = middle - half, high = middle + half;
  if (log) low = std::pow(10, low), high = std::pow(10, high);
  // Where doubles end, a further zoom would leave no axis.
  if (!(low < high) || !std::isfinite(high - low)) return limits;
  return {low, high};
}

}  // namespace phasescope::widgets
