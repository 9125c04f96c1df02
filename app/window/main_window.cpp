#include "app/window/main_window.h"

#include <imgui.h>
#include <imgui_internal.h>
#include <implot.h>
#include <implot_internal.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "app/window/notices.h"
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

// Ctrl and a digit for the first nine views, Ctrl+Shift and one for the next, then Ctrl+Alt.
int shortcut_of_view(std::size_t place) {
  constexpr int kWith[] = {0, ImGuiMod_Shift, ImGuiMod_Alt};
  if (place / 9 >= std::size(kWith)) return 0;
  return ImGuiMod_Ctrl | kWith[place / 9] | (ImGuiKey_1 + static_cast<int>(place % 9));
}

bool is_closed(const Session& session, const std::string& id) {
  return std::find(session.closed_views.begin(), session.closed_views.end(), id) !=
         session.closed_views.end();
}

// The view that had the focus last: a palette that was open has it no more when its command runs.
View* front_of(const std::vector<std::unique_ptr<View>>& views, const Session& session) {
  View* front = nullptr;
  for (const auto& view : views) {
    if (!view->visible() || is_closed(session, view->id())) continue;
    if (!front || view->last_focused() > front->last_focused()) front = view.get();
  }
  return front;
}

// What is done to the view in front.
std::vector<Command> commands_of_front(const std::vector<std::unique_ptr<View>>& views) {
  const auto with_front = [&views](auto act) {
    return [&views, act](ViewContext& context) {
      if (View* front = front_of(views, context.session())) act(context, *front);
    };
  };
  return {{"look.next_figure", "To the next figure", "Of the view in front: the keys are for it",
           ImGuiMod_Ctrl | ImGuiKey_G,
           with_front([](ViewContext&, View& front) { front.focus_next_figure(); })},
          {"look.save_figures", "Save figures...", "Those of the view in front",
           ImGuiMod_Ctrl | ImGuiKey_E,
           with_front([](ViewContext& context, View& front) { front.save(context); })},
          {"look.close_view", "Close the view in front", "The View menu shows it again",
           ImGuiMod_Ctrl | ImGuiKey_W,
           with_front([](ViewContext& context, View& front) { front.close(context); })}};
}

std::vector<Command> commands_of(const std::vector<std::unique_ptr<View>>& views) {
  std::vector<Command> list = window_commands();
  std::ranges::move(commands_of_front(views), std::back_inserter(list));
  int key = ImGuiKey_F2;  // of those that run a view's question; F1 is the list of shortcuts
  for (std::size_t place = 0; place < views.size(); ++place) {
    const View& view = *views[place];
    list.push_back({"view." + view.id(), "Show " + view.title(),
                    "Open this view or bring it forward", shortcut_of_view(place),
                    [id = view.id()](ViewContext& context) { show_view(context, id); }});
    const std::size_t before = list.size();
    view.add_commands(list);
    for (std::size_t i = before; i < list.size(); ++i) {
      if (list[i].id == view.id() + ".run" && key <= ImGuiKey_F12) list[i].shortcut = key++;
    }
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

// Where there is no room for all tabs, Dear ImGui leaves that of a window that is focused out of
// sight.
void reveal_tab(const std::string& window_name) {
  const ImGuiWindow* window = ImGui::FindWindowByName(window_name.c_str());
  if (window && window->DockNode && window->DockNode->TabBar) {
    window->DockNode->TabBar->NextSelectedTabId = window->TabId;
  }
}

// A list of the tabs of a place that has no room for all their titles.
void offer_tabs(const std::string& window_name) {
  const ImGuiWindow* window = ImGui::FindWindowByName(window_name.c_str());
  ImGuiDockNode* node = window ? window->DockNode : nullptr;
  if (!node || !node->TabBar) return;
  float room = node->TabBar->BarRect.GetWidth();
  if (node->HasWindowMenuButton) {  // it takes its own from the titles, and must not come and go
    room += ImGui::GetFontSize() + ImGui::GetStyle().ItemInnerSpacing.x;
  }
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

// Tab goes on from the item that has the focus. Where none has it, in a view that was just brought
// forward or whose item is gone, Dear ImGui finds nothing to go on from, however often Tab is
// pressed: it begins at the first item then, as behind the last one.
void let_tab_begin() {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  const bool forward = g.NavMoveScoringItems && g.NavTabbingDir > 0 &&
                       (g.NavMoveFlags & ImGuiNavMoveFlags_IsTabbing) != 0;
  if (forward && g.NavTabbingCounter < 0) g.NavTabbingCounter = 1;
}

}  // namespace

MainWindow::MainWindow(Session session, WorkerLink& quick, WorkerLink& slow)
    : edit_(std::move(session)),
      requests_(quick, slow),
      context_{edit_, requests_, window_},
      views_(all_views()),
      commands_(commands_of(views_)),
      layout_(views_),
      sessions_(sessions_folder()) {
  window_.copy = [](const std::string& text) { ImGui::SetClipboardText(text.c_str()); };
  to_focus_ = layout_.load(edit_.session().layout);
}

const View* MainWindow::view(const std::string& id) const {
  for (const auto& view : views_) {
    if (view->id() == id) return view.get();
  }
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
    if (!(typed && ImGui::GetIO().WantTextInput) && ImGui::Shortcut(command.shortcut, flags)) {
      command.run(context_);
    }
  }
}

void MainWindow::draw_command_items(const std::vector<const char*>& prefixes) {
  for (const Command& command : commands_) {
    const bool wanted = std::any_of(prefixes.begin(), prefixes.end(), [&](const char* prefix) {
      return starts_with(command.id, prefix);
    });
    if (!wanted) continue;
    if (ImGui::MenuItem(command.title.c_str(), shortcut_text(command).c_str(), false,
                        command.can_run(context_))) {
      command.run(context_);
    }
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
    for (const std::string& model : recent) {
      if (ImGui::MenuItem(model.c_str())) open_model_or_say(context_, model);
    }
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
    if (open) {
      view->close(context_);
    } else {
      show_view(context_, view->id());
    }
  }
  ImGui::Separator();
  for (const Command& command : commands_) {
    if (starts_with(command.id, "look.")) {
      if (ImGui::MenuItem(command.title.c_str(), shortcut_text(command).c_str())) {
        command.run(context_);
      }
    }
  }
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
  if (state == protocol::WorkerState::starting) {
    words = "worker starting" + host, color = colors.warn;
  }
  if (state == protocol::WorkerState::dead) words = "worker died", color = colors.bad;
  if (const int waiting = requests_.waiting(); waiting > 0) {
    words = with_short_names(edit_.session(), requests_.doing()) +
            (waiting > 1 ? "  +" + std::to_string(waiting - 1) : "");
  }
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
  for (const auto& view : views_) {
    if (view->visible()) least = std::min(least, view->seconds_between_polls());
  }
  return least;
}

// That of the right button on its tab.
void MainWindow::draw_tab_menu(const View& view) {
  const ImGuiWindow* window = ImGui::FindWindowByName(view.window_name().c_str());
  const std::string menu = "##tab of " + view.id();
  const bool hovered = window && window->DockNode && window->TabId != 0 &&
                       ImGui::GetCurrentContext()->HoveredId == window->TabId;
  if (hovered && ImGui::IsMouseReleased(ImGuiMouseButton_Right)) ImGui::OpenPopup(menu.c_str());
  if (!ImGui::BeginPopup(menu.c_str())) return;
  if (ImGui::MenuItem(("Close " + view.title()).c_str())) view.close(context_);
  ImGui::EndPopup();
}

void MainWindow::draw_views() {
  for (const auto& view : views_) {
    if (is_closed(edit_.session(), view->id())) continue;
    layout_.dock_if_new(*view);
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
  draw_guarded("The banner could not be drawn", [this] {
    const float top = draw_banner();
    const std::vector<std::string> front = layout_.draw(top, window_.reset_layout);
    if (!front.empty()) to_focus_ = front;
    window_.reset_layout = false;
  });
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
    draw_messages(window_), draw_notices(window_);
  });
  let_tab_begin();
  requests_.end_frame();
}

}  // namespace phasescope::app
