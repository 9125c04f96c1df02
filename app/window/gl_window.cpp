#include "app/window/gl_window.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <glad/gl.h>
#include <imgui.h>
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>
#include <imgui_internal.h>
#include <implot.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "formats/error.h"
#include "widgets/theme.h"

namespace phasescope::app {
namespace {

std::string& last_glfw_error() {
  static std::string text;
  return text;
}

void remember_error(int, const char* text) { last_glfw_error() = text; }

formats::Error no_display() {
  return formats::bad_usage(
      "no window can be opened here: " + last_glfw_error(), "",
      "set DISPLAY or WAYLAND_DISPLAY, or draw without one: phasescope view --screenshot out.png");
}

// No larger than what the screen has room for: not every desktop sees to that.
std::pair<int, int> size_on_screen(const GlWindowOptions& options) {
  int x = 0, y = 0, width = 0, height = 0;
  GLFWmonitor* screen = options.headless ? nullptr : glfwGetPrimaryMonitor();
  if (screen) glfwGetMonitorWorkarea(screen, &x, &y, &width, &height);
  if (width < 1 || height < 1) return {options.width, options.height};
  return {std::min(options.width, width), std::min(options.height, height)};
}

GLFWwindow* open_window(const GlWindowOptions& options) {
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
  glfwWindowHint(GLFW_VISIBLE, options.shown ? GLFW_TRUE : GLFW_FALSE);
  if (options.headless) glfwWindowHint(GLFW_CONTEXT_CREATION_API, GLFW_OSMESA_CONTEXT_API);
  const auto [width, height] = size_on_screen(options);
  return glfwCreateWindow(width, height, options.title.c_str(), nullptr, nullptr);
}

}  // namespace

struct GlWindow::Impl {
  GLFWwindow* window = nullptr;
  bool headless = false;
  std::atomic<bool> woken{true};
  // GLFW's null platform never waits, so a headless window waits for itself.
  std::mutex mutex;
  std::condition_variable woken_up;
  std::function<void(const std::vector<std::string>&)> on_drop;
};

namespace {

// Without the folder where its socket would be there is no Wayland, and its library says so on
// standard error when it is asked.
int platform_of(const GlWindowOptions& options) {
  if (options.headless) return GLFW_PLATFORM_NULL;
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  const bool wayland = folder != nullptr && folder[0] == '/';
  return wayland || !glfwPlatformSupported(GLFW_PLATFORM_X11) ? GLFW_ANY_PLATFORM
                                                              : GLFW_PLATFORM_X11;
}

}  // namespace

GlWindow::GlWindow(const GlWindowOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->headless = options.headless;
  glfwSetErrorCallback(remember_error);
  glfwInitHint(GLFW_PLATFORM, platform_of(options));
  if (!glfwInit()) throw no_display();
  impl_->window = open_window(options);
  if (!impl_->window) {
    glfwTerminate();
    throw no_display();
  }
  glfwMakeContextCurrent(impl_->window);
  if (!gladLoadGL(glfwGetProcAddress)) {
    glfwTerminate();
    throw formats::bad_usage("the display has no OpenGL 3.3", "", "install libgl1-mesa-dri");
  }
  glfwSwapInterval(options.headless ? 0 : 1);
  glfwSetWindowUserPointer(impl_->window, impl_.get());
  glfwSetWindowRefreshCallback(impl_->window, [](GLFWwindow* window) {
    static_cast<Impl*>(glfwGetWindowUserPointer(window))->woken = true;
  });
  ImGui::CreateContext();
  ImPlot::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.ConfigFlags |= ImGuiConfigFlags_DockingEnable | ImGuiConfigFlags_NavEnableKeyboard;
  io.IniFilename = nullptr;
  io.ConfigWindowsMoveFromTitleBarOnly = true;
  ImGui_ImplGlfw_InitForOpenGL(impl_->window, true);
  ImGui_ImplOpenGL3_Init("#version 330 core");
  widgets::load_fonts();
}

GlWindow::~GlWindow() {
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplGlfw_Shutdown();
  ImPlot::DestroyContext();
  ImGui::DestroyContext();
  glfwDestroyWindow(impl_->window);
  glfwTerminate();
}

// That of the monitor which the window is on now.
float GlWindow::scale() const {
  float x = 1, y = 1;
  glfwGetWindowContentScale(impl_->window, &x, &y);
  return x > 0 ? x : 1;
}

void GlWindow::begin_frame() {
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  ImGui::NewFrame();
}

void GlWindow::present() {
  int width = 0, height = 0;
  glfwGetFramebufferSize(impl_->window, &width, &height);
  glViewport(0, 0, width, height);
  const ImVec4 ground = ImGui::GetStyleColorVec4(ImGuiCol_DockingEmptyBg);
  glClearColor(ground.x, ground.y, ground.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  // Off screen nothing ever asks Mesa to finish: unfinished frames would pile up.
  if (impl_->headless) glFinish();
  glfwSwapBuffers(impl_->window);
}

bool GlWindow::wait(double seconds) {
  if (seconds > 0 && !impl_->woken && impl_->headless) {
    std::unique_lock lock(impl_->mutex);
    impl_->woken_up.wait_for(lock, std::chrono::duration<double>(seconds),
                             [this] { return impl_->woken.load(); });
  } else if (seconds > 0 && !impl_->woken) {
    glfwWaitEventsTimeout(seconds);
  } else {
    glfwPollEvents();
  }
  return impl_->woken.exchange(false) || ImGui::GetCurrentContext()->InputEventsQueue.Size > 0;
}

void GlWindow::wake() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->woken = true;
  }
  impl_->woken_up.notify_all();
  if (!impl_->headless) glfwPostEmptyEvent();
}

void GlWindow::set_on_drop(std::function<void(const std::vector<std::string>&)> on_drop) {
  impl_->on_drop = std::move(on_drop);
  glfwSetDropCallback(impl_->window, [](GLFWwindow* window, int count, const char** paths) {
    auto* impl = static_cast<Impl*>(glfwGetWindowUserPointer(window));
    impl->woken = true;
    impl->on_drop({paths, paths + count});
  });
}

bool GlWindow::closed() const { return glfwWindowShouldClose(impl_->window); }

widgets::Image GlWindow::picture() const {
  widgets::Image image;
  glfwGetFramebufferSize(impl_->window, &image.width, &image.height);
  std::vector<widgets::Rgba> upward(static_cast<std::size_t>(image.width) * image.height);
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, image.width, image.height, GL_RGBA, GL_UNSIGNED_BYTE, upward.data());
  image.pixels.resize(upward.size());
  for (int y = 0; y < image.height; ++y) {
    std::copy_n(upward.begin() + static_cast<std::ptrdiff_t>(image.height - 1 - y) * image.width,
                image.width, image.pixels.begin() + static_cast<std::ptrdiff_t>(y) * image.width);
  }
  for (widgets::Rgba& pixel : image.pixels) pixel.a = 255;
  return image;
}

std::string GlWindow::renderer() const {
  const auto* version = reinterpret_cast<const char*>(glGetString(GL_VERSION));
  const auto* name = reinterpret_cast<const char*>(glGetString(GL_RENDERER));
  return std::string("OpenGL ") + (version ? version : "?") + ", " + (name ? name : "?");
}

}  // namespace phasescope::app
