#include "app/window/main_window.h"

#include <imgui.h>
#include <imgui_internal.h>
#include <implot.h>
#include <implot_internal.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "app/window/dialog.h"
#include "app/window/opening.h"
#include "app/window/shortcuts.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

// Seconds between frames of what moves by itself, and between looks whether there is a worker by
// now.
constexpr double kAnimatedPause = 0.08, kWorkerPause = 1.0;
// In font sizes: in a narrower window the menus and what the worker does take all of the bar.
constexpr float kRoomForName = 30;
// In font sizes: a smaller window has no room for two columns of views, or for six places.
constexpr ImVec2 kRoomForTwo{36, 16}, kRoomForSix{56, 32};

// By the letters of the style: those of the first frame have their size from the next one on. With
// letters of the usual size, and in a window that is being hidden, there is room.
bool has_room_for(ImVec2 letters) {
  const ImGuiStyle& style = ImGui::GetStyle();
  if (style.FontScaleDpi <= 1) return true;
  const float letter = style.FontSizeBase * style.FontScaleDpi * style.FontScaleMain;
  const ImVec2 room = ImGui::GetMainViewport()->WorkSize;
  const bool seen = room.x >= letter && room.y >= letter;
  return !seen || (room.x >= letters.x * letter && room.y >= letters.y * letter);
}

// Ctrl and a digit for the first nine views, Ctrl+Shift and one for the next, then Ctrl+Alt.
int shortcut_of_view(std::size_t place) {
  constexpr int kWith[] = {0, ImGuiMod_Shift, ImGuiMod_Alt};
  if (place / 9 >= std::size(kWith)) return 0;
  return ImGuiMod_Ctrl | kWith[place / 9] | (ImGuiKey_1 + static_cast<int>(place % 9));
}

// A palette that was open has the focus no more when its command runs.
void go_to_figure(const std::vector<std::unique_ptr<View>>& views) {
  const auto front = std::ranges::max_element(
      views, {}, [](const auto& view) { return view->visible() ? view->last_focused() : -1; });
  if (front != views.end()) (*front)->focus_next_figure();
}

std::vector<Command> commands_of(const std::vector<std::unique_ptr<View>>& views) {
  std::vector<Command> list = window_commands();
  list.push_back({"look.next_figure", "To the next figure",
                  "Of the view in front: the keys are for it", ImGuiMod_Ctrl | ImGuiKey_G,
                  [&views](ViewContext&) { go_to_figure(views); }});
  int key = ImGuiKey_F2;  // of those that run a view's question; F1 is the list of shortcuts
  for (std::size_t place = 0; place < views.size(); ++place) {
    const View& view = *views[place];
    list.push_back({"view." + view.id(), "Show " + view.title(),
                    "Open this view or bring it forward", shortcut_of_view(place),
                    [id = view.id()](ViewContext& context) { show_view(context, id); }});
    const std::size_t before = list.size();
    view.add_commands(list);
    for (std::size_t i = before; i < list.size(); ++i)
      if (list[i].id == view.id() + ".run" && key <= ImGuiKey_F12) list[i].shortcut = key++;
  }
  return list;
}

// Keys that write letters where Alt is the right one of the keyboard.
bool writes_letters(int shortcut) {
  const int key = shortcut & ~ImGuiMod_Mask_;
  const bool letter =
      (key >= ImGuiKey_0 && key <= ImGuiKey_Z) || key == ImGuiKey_Minus || key == ImGuiKey_Equal;
  return letter && (shortcut & ImGuiMod_Alt) && !(shortcut & ImGuiMod_Ctrl);
}

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

bool is_closed(const Session& session, const std::string& id) {
  return std::find(session.closed_views.begin(), session.closed_views.end(), id) !=
         session.closed_views.end();
}

// Where there is no room for all tabs, Dear ImGui leaves that of a window that is focused out of
// sight.
void reveal_tab(const std::string& window_name) {
  const ImGuiWindow* window = ImGui::FindWindowByName(window_name.c_str());
  if (window && window->DockNode && window->DockNode->TabBar)
    window->DockNode->TabBar->NextSelectedTabId = window->TabId;
}

// A list of the tabs of a place that has no room for all their titles.
void offer_tabs(const std::string& window_name) {
  const ImGuiWindow* window = ImGui::FindWindowByName(window_name.c_str());
  ImGuiDockNode* node = window ? window->DockNode : nullptr;
  if (!node || !node->TabBar) return;
  float room = node->TabBar->BarRect.GetWidth();
  if (node->HasWindowMenuButton)  // it takes its own from the titles, and must not come and go
    room += ImGui::GetFontSize() + ImGui::GetStyle().ItemInnerSpacing.x;
  const bool all = node->TabBar->WidthAllTabsIdeal <= room;
  node->SetLocalFlags(all ? node->LocalFlags | ImGuiDockNodeFlags_NoWindowMenuButton
                          : node->LocalFlags & ~ImGuiDockNodeFlags_NoWindowMenuButton);
}

// A docked view has no cross on its tab, and its place none that would close all of them: a click
// that is to bring a view forward must not close one. Its menu does. A floating one keeps its own.
// Dear ImGui reads this when it lays the tabs of the next frame out.
void take_crosses_off(const std::string& window_name) {
  ImGuiWindow* window = ImGui::FindWindowByName(window_name.c_str());
  if (window && window->DockNode) window->HasCloseButton = false;
}

// What Dear ImGui writes of a place whose tab in front is this window's.
std::string selected_in_layout(const std::string& window_name) {
  const ImGuiID tab = ImHashStr("#TAB", 0, ImHashStr(window_name.c_str()));
  char text[24];
  std::snprintf(text, sizeof text, "Selected=0x%08X", tab);
  return text;
}

void scale_nodes(ImGuiDockNode* node, ImVec2 by) {
  if (!node) return;
  node->SizeRef = {node->SizeRef.x * by.x, node->SizeRef.y * by.y};
  for (ImGuiDockNode* child : node->ChildNodes) scale_nodes(child, by);
}

}  // namespace

MainWindow::MainWindow(Session session, WorkerLink& quick, WorkerLink& slow)
    : edit_(std::move(session)),
      requests_(quick, slow),
      context_{edit_, requests_, window_},
      views_(all_views()),
      commands_(commands_of(views_)),
      sessions_(sessions_folder()) {
  window_.copy = [](const std::string& text) { ImGui::SetClipboardText(text.c_str()); };
  // Dear ImGui takes a layout only before its first frame.
  const std::string& layout = edit_.session().layout;
  if (layout.empty()) return;
  ImGui::LoadIniSettingsFromMemory(layout.c_str(), layout.size());
  // The window that appears last would have its tab in front, whichever was there.
  for (const auto& shown : views_)
    if (layout.find(selected_in_layout(shown->window_name())) != layout.npos)
      to_focus_.push_back(shown->id());
}

const View* MainWindow::view(const std::string& id) const {
  for (const auto& view : views_)
    if (view->id() == id) return view.get();
  return nullptr;
}

std::vector<std::string> MainWindow::view_ids() const {
  std::vector<std::string> ids;
  for (const auto& view : views_) ids.push_back(view->id());
  return ids;
}

bool MainWindow::settled() const {
  return window_.may_ask && requests_.waiting() == 0 && !window_.working() && to_focus_.empty();
}

bool MainWindow::animated() const {
  return requests_.waiting() > 0 || window_.working() || !to_focus_.empty() || window_.moving;
}

double MainWindow::next_frame_in() const {
  if (animated()) return kAnimatedPause;
  return std::min(window_.seconds_to_next_change(), seconds_between_polls());
}

Session MainWindow::session_to_save() {
  Session session = edit_.session();
  std::size_t size = 0;
  const char* text = ImGui::SaveIniSettingsToMemory(&size);
  session.layout.assign(text, size);
  return session;
}

void MainWindow::apply_look(float scale) {
  const std::string& theme = edit_.session().theme;
  scale *= static_cast<float>(std::clamp(edit_.session().scale, kLeastScale, kLargestScale));
  if (theme == shown_theme_ && scale == shown_scale_) return;
  widgets::apply_theme(theme, scale);
  shown_theme_ = theme, shown_scale_ = scale;
}

// A shortcut works wherever the focus is, but never while it would be typed into a text.
void MainWindow::run_shortcuts() {
  for (const Command& command : commands_) {
    if (!command.shortcut) continue;
    const auto flags = ImGuiInputFlags_RouteGlobal | ImGuiInputFlags_RouteOverActive;
    const bool typed = starts_with(command.id, "edit.") || writes_letters(command.shortcut);
    if (!(typed && ImGui::GetIO().WantTextInput) && ImGui::Shortcut(command.shortcut, flags))
      command.run(context_);
  }
}

void MainWindow::draw_command_items(const std::vector<const char*>& prefixes) {
  for (const Command& command : commands_) {
    const bool wanted = std::any_of(prefixes.begin(), prefixes.end(), [&](const char* prefix) {
      return starts_with(command.id, prefix);
    });
    if (!wanted) continue;
    if (ImGui::MenuItem(command.title.c_str(), shortcut_text(command).c_str(), false,
                        command.can_run(context_)))
      command.run(context_);
  }
}

void MainWindow::draw_command_menu(const char* title, const std::vector<const char*>& prefixes) {
  if (!ImGui::BeginMenu(title)) return;
  draw_command_items(prefixes);
  ImGui::EndMenu();
}

void MainWindow::draw_file_menu() {
  if (!ImGui::BeginMenu("File")) return;
  draw_command_items({"file."});
  ImGui::Separator();
  if (ImGui::BeginMenu("Open a recent model", !edit_.session().recent.empty())) {
    const std::vector<std::string> recent = edit_.session().recent;  // opening changes the list
    for (const std::string& model : recent)
      if (ImGui::MenuItem(model.c_str())) open_model_or_say(context_, model);
    ImGui::EndMenu();
  }
  ImGui::EndMenu();
}

void MainWindow::draw_view_menu() {
  if (!ImGui::BeginMenu("View")) return;
  for (const auto& view : views_) {
    const bool open = !is_closed(edit_.session(), view->id());
    const auto command = std::ranges::find(commands_, "view." + view->id(), &Command::id);
    if (!ImGui::MenuItem(view->title().c_str(), shortcut_text(*command).c_str(), open)) continue;
    if (open)
      close_view(*view);
    else
      show_view(context_, view->id());
  }
  ImGui::Separator();
  for (const Command& command : commands_)
    if (starts_with(command.id, "look."))
      if (ImGui::MenuItem(command.title.c_str(), shortcut_text(command).c_str()))
        command.run(context_);
  ImGui::EndMenu();
}

// At the right end of the menu: what the worker is, and what it is doing.
void MainWindow::draw_status() {
  const auto& colors = widgets::palette();
  const protocol::WorkerState state = requests_.state();
  const std::string host = window_.remote.empty() ? "" : " on " + window_.remote;
  std::string words = "worker ready" + host;
  ImVec4 color = colors.good;
  const bool recorded = !requests_.recorded().empty();
  if (recorded) words = "recorded", color = colors.warn;
  if (state == protocol::WorkerState::not_started) words = "no worker yet", color = colors.quiet;
  if (state == protocol::WorkerState::starting)
    words = "worker starting" + host, color = colors.warn;
  if (state == protocol::WorkerState::dead) words = "worker died", color = colors.bad;
  if (const int waiting = requests_.waiting(); waiting > 0)
    words = requests_.doing() + (waiting > 1 ? "  +" + std::to_string(waiting - 1) : "");
  const float dot = ImGui::GetFontSize() * 0.28F, wanted = ImGui::CalcTextSize(words.c_str()).x;
  const float width = wanted + dot * 6 + 12;
  ImGui::SameLine(std::max(ImGui::GetCursorPosX() + 8, ImGui::GetWindowWidth() - width));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::GetWindowDrawList()->AddCircleFilled({at.x + dot, at.y + ImGui::GetFrameHeight() / 2}, dot,
                                              ImGui::ColorConvertFloat4ToU32(color));
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + dot * 3.4F);
  const float room = ImGui::GetWindowWidth() - ImGui::GetCursorPosX() - dot;
  ImGui::PushStyleColor(ImGuiCol_Text, colors.quiet);
  widgets::draw_line(words, std::min(room, wanted + 1));
  ImGui::PopStyleColor();
  if (wanted > room) tooltip(words);
}

void MainWindow::draw_menu() {
  if (!ImGui::BeginMainMenuBar()) return;
  // The menus are needed more than the name, which the window's title has too.
  if (ImGui::GetWindowWidth() > ImGui::GetFontSize() * kRoomForName) {
    ImGui::PushFont(widgets::fonts().bold, 0.0F);
    ImGui::TextUnformatted("Phasescope");
    ImGui::PopFont();
  }
  draw_file_menu();
  draw_command_menu("Edit", {"edit."});
  draw_command_menu("Head", {"head.", "heads.", "model."});
  draw_command_menu("Map", {"map."});
  draw_view_menu();
  if (ImGui::MenuItem("Commands", "Ctrl+K")) window_.palette_open = true;
  draw_status();
  ImGui::EndMainMenuBar();
}

// Across the window: what happened and what follows from it, in one line where there is room, and
// a button, where it has a title, that is never out of reach.
MainWindow::BannerDrawn MainWindow::draw_line(const ImVec4& color, const std::string& what,
                                              const std::string& then, const char* button) {
  const ImGuiViewport* view = ImGui::GetMainViewport();
  const ImGuiStyle& style = ImGui::GetStyle();
  const ImVec2 padding{12, 5};
  const float aside =
      *button ? ImGui::CalcTextSize(button).x + 2 * style.FramePadding.x + style.ItemSpacing.x : 0;
  const float room = view->WorkSize.x - 2 * padding.x - aside;
  const auto size = [&](const std::string& words, float wrap) {
    return ImGui::CalcTextSize(words.c_str(), nullptr, false, wrap);
  };
  const bool one_line = size(what + " " + then, -1).x + style.ItemSpacing.x <= room;
  const float words = size(what, room).y + style.ItemSpacing.y + size(then, room).y;
  const float height = std::max(ImGui::GetFrameHeight(), one_line ? 0 : words) + 2 * padding.y;
  ImGui::SetNextWindowPos(view->WorkPos);
  ImGui::SetNextWindowSize({view->WorkSize.x, height});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, padding);
  const ImGuiWindowFlags flags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                                 ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings;
  bool pressed = false;
  if (ImGui::Begin("##banner", nullptr, flags)) {
    ImGui::BeginGroup();
    ImGui::PushTextWrapPos(padding.x + room);
    if (one_line) ImGui::AlignTextToFramePadding();
    ImGui::TextColored(color, "%s", what.c_str());
    if (one_line) ImGui::SameLine();
    ImGui::TextUnformatted(then.c_str());
    ImGui::PopTextWrapPos();
    ImGui::EndGroup();
    if (*button) ImGui::SameLine(), pressed = ImGui::Button(button);
  }
  ImGui::End();
  ImGui::PopStyleVar();
  return {height, pressed};
}

// How a worker died.
float MainWindow::draw_death() {
  const bool alone = requests_.gave_up();
  const BannerDrawn drawn =
      draw_line(widgets::palette().bad, requests_.death_notice(),
                alone ? "It died several times; no other one is started without you."
                      : "Another one was started and has the models again.",
                alone ? "Start again" : "Dismiss");
  if (drawn.pressed && alone) requests_.start_again();
  if (drawn.pressed && !alone) requests_.dismiss_death();
  return drawn.height;
}

float MainWindow::draw_banner() {
  if (!requests_.death_notice().empty()) return draw_death();
  const std::string why = requests_.recorded();
  if (why.empty()) return 0;
  constexpr const char* kThen =
      "What is shown was recorded; the rest waits for the worker, which then answers all anew.";
  return draw_line(widgets::palette().warn, why + ".", kThen, "").height;
}

// Left: what is read and by what. Middle: heads over extrapolation. Right: map over distance. With
// large letters left and middle are tabs of one column, or all views are tabs of one place.
void MainWindow::build_layout(unsigned dock) {
  ImGui::DockBuilderRemoveNode(dock);
  ImGui::DockBuilderAddNode(dock, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(dock, ImGui::GetMainViewport()->WorkSize);
  ImGuiID left = dock, middle = dock, right = dock;
  const bool six = has_room_for(kRoomForSix);
  if (six) ImGui::DockBuilderSplitNode(dock, ImGuiDir_Left, 0.215F, &left, &middle);
  if (six || has_room_for(kRoomForTwo))
    ImGui::DockBuilderSplitNode(middle, ImGuiDir_Right, six ? 0.425F : 0.5F, &right, &middle);
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
  to_focus_.clear();
  for (const Place& place :
       {Place{Slot::left_top, left}, Place{Slot::left_bottom, left_low},
        Place{Slot::middle_bottom, middle_low}, Place{Slot::right_bottom, right_low},
        Place{Slot::right, right}, Place{Slot::middle, middle}}) {
    bool first = true;
    for (const auto& shown : views_) {
      if (shown->slot() != place.slot) continue;
      ImGui::DockBuilderDockWindow(shown->window_name().c_str(), place.node);
      if (first) to_focus_.push_back(shown->id());
      first = false;
    }
  }
  ImGui::DockBuilderFinish(dock);
}

// Dear ImGui takes what a smaller window lacks from the middle alone, until nothing is left of it.
void MainWindow::scale_layout(unsigned dock, float top) {
  ImGuiDockNode* root = ImGui::DockBuilderGetNode(dock);
  const ImVec2 now = ImGui::GetMainViewport()->WorkSize;
  ImVec2 before{layout_width_, layout_height_};
  if (before.x < 1) before = root->SizeRef;
  // Of a layout that was read, the root knows the size that it had below the window's top alone.
  if (before.x < 1 && root->Size.x >= 1) before = {root->Size.x, root->Size.y + top};
  layout_width_ = now.x, layout_height_ = now.y;
  if (now.x < 1 || now.y < 1 || before.x < 1 || before.y < 1) return;
  if (now.x != before.x || now.y != before.y)
    scale_nodes(root, {now.x / before.x, now.y / before.y});
}

void MainWindow::draw_dock(float top) {
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
  if (window_.reset_layout || !ImGui::DockBuilderGetNode(dock)) build_layout(dock);
  window_.reset_layout = false;
  scale_layout(dock, top);
  ImGui::DockSpace(dock);
  ImGui::End();
}

// An exception while a part is drawn leaves Dear ImGui in the middle of it: both are brought back
// to where they were before, and the window goes on.
void MainWindow::draw_guarded(const std::string& what, const std::function<void()>& draw) {
  ImGuiErrorRecoveryState before;
  ImGui::ErrorRecoveryStoreState(&before);
  try {
    draw();
  } catch (const std::exception& error) {
    if (ImPlot::GetCurrentContext()) ImPlot::ResetCtxForNextPlot(ImPlot::GetCurrentContext());
    ImGuiIO& io = ImGui::GetIO();
    io.ConfigErrorRecoveryEnableAssert = io.ConfigErrorRecoveryEnableTooltip = false;
    ImGui::ErrorRecoveryTryToRecoverState(&before);
    io.ConfigErrorRecoveryEnableAssert = io.ConfigErrorRecoveryEnableTooltip = true;
    window_.say(what + ": " + error.what(), true);
  }
}

double MainWindow::seconds_between_polls() const {
  double least =
      requests_.recorded().empty() ? std::numeric_limits<double>::infinity() : kWorkerPause;
  for (const auto& view : views_)
    if (view->visible()) least = std::min(least, view->seconds_between_polls());
  return least;
}

// A view that the session's layout does not know stands with one of its slot, in place of floating
// over all others.
void MainWindow::dock_if_new(const View& view) {
  if (ImGui::FindWindowByName(view.window_name().c_str()) ||
      ImGui::FindWindowSettingsByID(ImHashStr(view.window_name().c_str())))
    return;
  for (const auto& other : views_) {
    if (other->slot() != view.slot()) continue;
    const auto* settings = ImGui::FindWindowSettingsByID(ImHashStr(other->window_name().c_str()));
    if (!settings || settings->DockId == 0) continue;
    return ImGui::SetNextWindowDockID(settings->DockId, ImGuiCond_FirstUseEver);
  }
}

void MainWindow::close_view(const View& view) {
  edit_.apply("Close " + view.title(), [&](Session& s) { s.closed_views.push_back(view.id()); });
}

// That of the right button on its tab.
void MainWindow::draw_tab_menu(const View& view) {
  const ImGuiWindow* window = ImGui::FindWindowByName(view.window_name().c_str());
  const std::string menu = "##tab of " + view.id();
  const bool hovered = window && window->DockNode && window->TabId != 0 &&
                       ImGui::GetCurrentContext()->HoveredId == window->TabId;
  if (hovered && ImGui::IsMouseReleased(ImGuiMouseButton_Right)) ImGui::OpenPopup(menu.c_str());
  if (!ImGui::BeginPopup(menu.c_str())) return;
  if (ImGui::MenuItem(("Close " + view.title()).c_str())) close_view(view);
  ImGui::EndPopup();
}

void MainWindow::draw_views() {
  for (const auto& view : views_) {
    if (is_closed(edit_.session(), view->id())) continue;
    dock_if_new(*view);
    draw_guarded(view->title() + " could not be drawn", [&] { view->draw(context_); });
    offer_tabs(view->window_name());
    take_crosses_off(view->window_name());
    draw_tab_menu(*view);
  }
  if (!window_.focus_view.empty()) to_focus_.push_back(window_.focus_view);
  window_.focus_view.clear();
  // One a frame: Dear ImGui shows the tab of the window that was focused last.
  if (to_focus_.empty()) return;
  if (const View* next = view(to_focus_.front())) {
    ImGui::SetWindowFocus(next->window_name().c_str());
    reveal_tab(next->window_name());
  }
  to_focus_.erase(to_focus_.begin());
}

void MainWindow::draw_notices() {
  const ImGuiViewport* view = ImGui::GetMainViewport();
  float bottom = view->WorkPos.y + view->WorkSize.y - 14;
  int dismissed = -1;
  bool held = false;  // by the pointer, which is reading
  for (std::size_t i = 0; i < window_.notices.size(); ++i) {
    const WindowState::Notice& notice = window_.notices[i];
    ImGui::SetNextWindowPos({view->WorkPos.x + view->WorkSize.x - 14, bottom}, ImGuiCond_Always,
                            {1, 1});
    const float widest = view->WorkSize.x * 0.45F;
    ImGui::SetNextWindowSizeConstraints({0, 0}, {widest, view->WorkSize.y * 0.57F});
    const ImGuiWindowFlags flags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                                   ImGuiWindowFlags_NoMove | ImGuiWindowFlags_AlwaysAutoResize |
                                   ImGuiWindowFlags_NoSavedSettings |
                                   ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav;
    if (ImGui::Begin(("##notice" + std::to_string(i)).c_str(), nullptr, flags)) {
      ImGui::PushTextWrapPos(
          std::min(ImGui::GetFontSize() * 38, widest - ImGui::GetStyle().WindowPadding.x));
      ImGui::TextColored(
          notice.error ? widgets::palette().bad : ImGui::GetStyleColorVec4(ImGuiCol_Text), "%s",
          notice.text.c_str());
      ImGui::PopTextWrapPos();
      held = held || ImGui::IsWindowHovered();
      if (ImGui::IsWindowHovered() && ImGui::IsMouseClicked(ImGuiMouseButton_Left))
        dismissed = static_cast<int>(i);
      bottom -= ImGui::GetWindowHeight() + 8;
    }
    ImGui::End();
  }
  if (dismissed >= 0) window_.notices.erase(window_.notices.begin() + dismissed);
  window_.drop_old_notices(held);
}

// What was said, for whom it left too early.
void MainWindow::draw_messages() {
  if (std::exchange(window_.messages_open, false)) ImGui::OpenPopup("Messages");
  place_dialog(46, 26, ImGuiCond_Appearing);
  bool open = true;
  if (!ImGui::BeginPopupModal("Messages", &open, ImGuiWindowFlags_NoSavedSettings)) return;
  if (ImGui::IsKeyPressed(ImGuiKey_Escape)) ImGui::CloseCurrentPopup();
  if (window_.said.empty()) ImGui::TextDisabled("Nothing was said yet.");
  if (!window_.said.empty() && ImGui::Button("Copy all")) {
    std::string all;
    for (const WindowState::Notice& notice : window_.said) all += notice.text + "\n";
    window_.copy(all);
  }
  for (auto notice = window_.said.rbegin(); notice != window_.said.rend(); ++notice) {
    ImGui::PushStyleColor(ImGuiCol_Text, notice->error ? widgets::palette().bad
                                                       : ImGui::GetStyleColorVec4(ImGuiCol_Text));
    ImGui::TextWrapped("%s", notice->text.c_str());
    ImGui::PopStyleColor();
  }
  ImGui::EndPopup();
}

void MainWindow::draw(float scale) {
  // Whoever keeps the session waits by himself. Dear ImGui would count the five seconds that it
  // waits in frames, of which an idle window draws none.
  ImGui::GetIO().IniSavingRate = 1e-3F;
  try {
    requests_.compute_with(edit_.session().computing);
    requests_.keep_answers_of(edit_.session().models);
    if (window_.may_ask) requests_.begin_frame();
  } catch (const std::exception& error) {
    window_.say(std::string("An answer could not be taken: ") + error.what(), true);
  }
  window_.collect();
  window_.begin_hover();
  window_.moving = false;
  apply_look(scale);
  draw_guarded("The command failed", [this] { run_shortcuts(); });
  draw_guarded("The command failed", [this] { draw_menu(); });
  draw_guarded("The banner could not be drawn", [this] { draw_dock(draw_banner()); });
  draw_views();
  draw_guarded("The command failed", [this] {
    palette_.draw(context_, commands_, [this](const std::string& words) {
      std::vector<Command> found;
      for (const auto& view : views_) view->add_found(context_, words, found);
      return found;
    });
  });
  draw_guarded("The file could not be opened", [this] { dialog_.draw(context_); });
  draw_guarded("The figure could not be saved", [this] { export_.draw(context_); });
  draw_guarded("The session could not be kept",
               [this] { sessions_.draw(context_, [this] { return session_to_save(); }); });
  draw_guarded("A message could not be drawn", [this] {
    draw_shortcuts(window_.help_open, commands_);
    draw_messages(), draw_notices();
  });
  requests_.end_frame();
}

}  // namespace phasescope::app
