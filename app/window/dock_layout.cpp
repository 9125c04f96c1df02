#include "app/window/dock_layout.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

namespace phasescope::app {
namespace {

// In font sizes: a smaller window has no room for two columns of views, or for six places.
constexpr ImVec2 kRoomForTwo{36, 16}, kRoomForSix{56, 32};

// By the letters of the style: those of the first frame have their size from the next one on.
float letter_size() {
  const ImGuiStyle& style = ImGui::GetStyle();
  return style.FontSizeBase * style.FontScaleDpi * style.FontScaleMain;
}

// With letters of the usual size, and in a window that is being hidden, there is room.
bool has_room_for(ImVec2 letters) {
  if (ImGui::GetStyle().FontScaleDpi <= 1) return true;
  const float letter = letter_size();
  const ImVec2 room = ImGui::GetMainViewport()->WorkSize;
  const bool seen = room.x >= letter && room.y >= letter;
  return !seen || (room.x >= letters.x * letter && room.y >= letters.y * letter);
}

// What Dear ImGui writes of a place whose tab in front is this window's.
std::string selected_in_layout(const std::string& window_name) {
  const ImGuiID tab = ImHashStr("#TAB", 0, ImHashStr(window_name.c_str()));
  char text[24];
  std::snprintf(text, sizeof text, "Selected=0x%08X", tab);
  return text;
}

// The place of a view that was shown or stands in the session's layout; none of others.
const ImGuiID* dock_of(const View& view) {
  if (const ImGuiWindow* window = ImGui::FindWindowByName(view.window_name().c_str())) {
    return &window->DockId;
  }
  const auto* settings = ImGui::FindWindowSettingsByID(ImHashStr(view.window_name().c_str()));
  return settings ? &settings->DockId : nullptr;
}

void scale_nodes(ImGuiDockNode* node, ImVec2 by) {
  if (!node) return;
  node->SizeRef = {node->SizeRef.x * by.x, node->SizeRef.y * by.y};
  for (ImGuiDockNode* child : node->ChildNodes) scale_nodes(child, by);
}

}  // namespace

std::vector<std::string> DockLayout::load(const std::string& layout) const {
  std::vector<std::string> front;
  if (layout.empty()) return front;
  ImGui::LoadIniSettingsFromMemory(layout.c_str(), layout.size());
  for (const auto& shown : views_) {
    if (layout.find(selected_in_layout(shown->window_name())) != layout.npos) {
      front.push_back(shown->id());
    }
  }
  return front;
}

DockLayout::Places DockLayout::places_with_room() {
  if (has_room_for(kRoomForSix)) return Places::six;
  return has_room_for(kRoomForTwo) ? Places::two : Places::one;
}

// Left and middle are one place of two.
int DockLayout::place_of(Slot slot, Places places) {
  if (places == Places::six) return static_cast<int>(slot);
  const bool right = slot == Slot::right || slot == Slot::right_bottom;
  return places == Places::two && right ? 1 : 0;
}

// Whether the views stand together and apart as build() puts them.
bool DockLayout::stands_as(Places places) const {
  std::map<int, ImGuiID> docks;
  std::set<ImGuiID> apart;
  for (const auto& view : views_) {
    const ImGuiID* dock = dock_of(*view);
    if (!dock) continue;
    const auto [place, first] = docks.try_emplace(place_of(view->slot(), places), *dock);
    if (*dock == 0 || place->second != *dock || (first && !apart.insert(*dock).second)) {
      return false;
    }
  }
  return !docks.empty();
}

// Whether other letters ask for other places than those that the views were put into.
bool DockLayout::must_follow(Places room) {
  if (std::exchange(letter_, letter_size()) == letter_size() || stands_as(room)) return false;
  return stands_as(Places::one) || stands_as(Places::two) || stands_as(Places::six);
}

// Left: what is read and by what. Middle: heads over extrapolation. Right: map over distance. With
// large letters left and middle are tabs of one column, or all views are tabs of one place.
std::vector<std::string> DockLayout::build(unsigned dock, Places places) const {
  ImGui::DockBuilderRemoveNode(dock);
  ImGui::DockBuilderAddNode(dock, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(dock, ImGui::GetMainViewport()->WorkSize);
  ImGuiID left = dock, middle = dock, right = dock;
  const bool six = places == Places::six;
  if (six) ImGui::DockBuilderSplitNode(dock, ImGuiDir_Left, 0.215F, &left, &middle);
  if (places != Places::one) {
    ImGui::DockBuilderSplitNode(middle, ImGuiDir_Right, six ? 0.425F : 0.5F, &right, &middle);
  }
  if (!six) left = middle;
  ImGuiID left_low = left, middle_low = middle, right_low = right;
  if (six) {
    ImGui::DockBuilderSplitNode(left, ImGuiDir_Down, 0.55F, &left_low, &left);
    ImGui::DockBuilderSplitNode(middle, ImGuiDir_Down, 0.41F, &middle_low, &middle);
    ImGui::DockBuilderSplitNode(right, ImGuiDir_Down, 0.44F, &right_low, &right);
  }
  struct Place {
    Slot slot;
    ImGuiID node;
  };
  // Views come forward in this order: the last one has the focus.
  std::vector<std::string> front;
  for (const Place& place :
       {Place{Slot::left_top, left}, Place{Slot::left_bottom, left_low},
        Place{Slot::middle_bottom, middle_low}, Place{Slot::right_bottom, right_low},
        Place{Slot::right, right}, Place{Slot::middle, middle}}) {
    bool first = true;
    for (const auto& shown : views_) {
      if (shown->slot() != place.slot) continue;
      ImGui::DockBuilderDockWindow(shown->window_name().c_str(), place.node);
      if (first) front.push_back(shown->id());
      first = false;
    }
  }
  ImGui::DockBuilderFinish(dock);
  return front;
}

// What was seen is seen again, and the view that had the focus has it.
void DockLayout::keep_in_front(std::vector<std::string>& front) const {
  std::vector<const View*> seen;
  for (const auto& view : views_) {
    if (view->visible()) seen.push_back(view.get());
  }
  std::ranges::stable_sort(seen, {}, &View::last_focused);
  for (const View* view : seen) front.push_back(view->id());
}

// Dear ImGui takes what a smaller window lacks from the middle alone, until nothing is left of it.
void DockLayout::scale(unsigned dock, float top) {
  ImGuiDockNode* root = ImGui::DockBuilderGetNode(dock);
  const ImVec2 now = ImGui::GetMainViewport()->WorkSize;
  ImVec2 before{width_, height_};
  if (before.x < 1) before = root->SizeRef;
  // Of a layout that was read, the root knows the size that it had below the window's top alone.
  if (before.x < 1 && root->Size.x >= 1) before = {root->Size.x, root->Size.y + top};
  width_ = now.x, height_ = now.y;
  if (now.x < 1 || now.y < 1 || before.x < 1 || before.y < 1) return;
  if (now.x != before.x || now.y != before.y) {
    scale_nodes(root, {now.x / before.x, now.y / before.y});
  }
}

std::vector<std::string> DockLayout::draw(float top, bool reset) {
  const ImGuiViewport* view = ImGui::GetMainViewport();
  ImGui::SetNextWindowPos({view->WorkPos.x, view->WorkPos.y + top});
  ImGui::SetNextWindowSize({view->WorkSize.x, view->WorkSize.y - top});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
  const ImGuiWindowFlags flags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                                 ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                                 ImGuiWindowFlags_NoBringToFrontOnFocus |
                                 ImGuiWindowFlags_NoNavFocus | ImGuiWindowFlags_NoBackground;
  ImGui::Begin("##dock", nullptr, flags);
  ImGui::PopStyleVar(2);
  const ImGuiID dock = ImGui::GetID("dock");
  const Places room = places_with_room();
  const bool follows = must_follow(room);
  const bool none = !ImGui::DockBuilderGetNode(dock);
  std::vector<std::string> front;
  if (reset || none || follows) front = build(dock, room);
  if (follows && !reset && !none) keep_in_front(front);
  scale(dock, top);
  ImGui::DockSpace(dock);
  ImGui::End();
  return front;
}

void DockLayout::dock_if_new(const View& view) const {
  if (dock_of(view)) return;
  for (const auto& other : views_) {
    if (other->slot() != view.slot()) continue;
    const auto* settings = ImGui::FindWindowSettingsByID(ImHashStr(other->window_name().c_str()));
    if (!settings || settings->DockId == 0) continue;
    return ImGui::SetNextWindowDockID(settings->DockId, ImGuiCond_FirstUseEver);
  }
}

}  // namespace phasescope::app
