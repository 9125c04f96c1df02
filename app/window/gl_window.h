#pragma once
// The window on the screen, or in memory: GLFW, OpenGL and Dear ImGui's context.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "widgets/map_image.h"

namespace phasescope::app {

struct GlWindowOptions {
  int width = 1600, height = 1000;
  bool headless = false;  // GLFW's null platform with OSMesa: no display server at all
  std::string title = "Phasescope";
  bool shown = true;  // false: on a display, but not on its screen
};

class GlWindow {
 public:
  // Throws formats::Error "bad_usage" where no display can be opened, saying what to do.
  explicit GlWindow(const GlWindowOptions& options);
  ~GlWindow();
  GlWindow(const GlWindow&) = delete;
  GlWindow& operator=(const GlWindow&) = delete;

  // A frame: begin, draw with ImGui, present.
  void begin_frame();
  // Hands the frame to OpenGL and shows it.
  void present();
  // Waits for input, a wake or the time to pass; true when there is a reason to draw.
  bool wait(double seconds);
  // From any thread: makes wait() return.
  void wake();
  // Called with the paths of files that are dropped on the window.
  void set_on_drop(std::function<void(const std::vector<std::string>&)> on_drop);
  bool closed() const;
  float scale() const;

  // What is on the screen, rows from the top. Call after present().
  widgets::Image picture() const;
  // "OpenGL 4.5, llvmpipe"
  std::string renderer() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phasescope::app
