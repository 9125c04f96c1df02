#pragma once
// All that is drawn, in whatever ImGui context is current: menu, docked views, palette, dialogs,
// notices. Needs no display, so tests draw it with a null back end.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/views/views.h"
#include "app/window/dock_layout.h"
#include "app/window/export_dialog.h"
#include "app/window/file_dialog.h"
#include "app/window/palette.h"
#include "app/window/sessions_dialog.h"

namespace phasescope::app {

class MainWindow {
 public:
  MainWindow(Session session, WorkerLink& quick, WorkerLink& slow);

  // One frame between ImGui::NewFrame and ImGui::Render. `scale` is that of the display.
  void draw(float scale = 1.0F);

  // Nothing is asked of a worker before this: the first frame comes before anything loads.
  void start_asking() { window_.may_ask = true; }

  SessionHistory& edit() { return edit_; }
  WorkerRequests& requests() { return requests_; }
  WindowState& window() { return window_; }
  const std::vector<Command>& commands() const { return commands_; }
  ViewContext& context() { return context_; }
  const View* view(const std::string& id) const;
  std::vector<std::string> view_ids() const;
  // Nothing is under way: no question waits, no axis moves, no file is being written.
  bool settled() const;
  // True while something moves by itself and frames must go on (progress, axes).
  bool animated() const;
  // Seconds until a frame is to be drawn though nothing happens; infinite where none is.
  double next_frame_in() const;
  // Seconds until a view that is seen asks again by itself, or a worker is looked for.
  double seconds_between_polls() const;
  // The session as it is to be saved, with the present layout.
  Session session_to_save();

 private:
  void apply_look(float scale);
  void run_shortcuts();
  void draw_menu();
  void draw_command_menu(const char* title, const std::vector<const char*>& prefixes);
  void draw_file_menu();
  void draw_command_items(const std::vector<const char*>& prefixes);
  void draw_view_menu();
  void draw_status();
  float draw_banner();
  struct BannerDrawn {
    float height = 0;
    bool pressed = false;  // its button
  };
  BannerDrawn draw_line(const ImVec4& color, const std::string& what, const std::string& then,
                        const char* button);
  float draw_death();
  void draw_tab_menu(const View& view);
  void draw_views();
  // What an exception says stands behind `what`, as a notice.
  void draw_guarded(const std::string& what, const std::function<void()>& draw);

  SessionHistory edit_;
  WorkerRequests requests_;
  WindowState window_;
  ViewContext context_;
  std::vector<std::unique_ptr<View>> views_;
  std::vector<Command> commands_;
  DockLayout layout_;
  CommandPalette palette_;
  FileDialog dialog_;
  ExportDialog export_;
  SessionsDialog sessions_;
  std::string shown_theme_;
  float shown_scale_ = 0;
  std::vector<std::string> to_focus_;  // views to bring forward, a frame after the layout is made
};

}  // namespace phasescope::app
