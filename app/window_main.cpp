#include "app/window_main.h"

#include <imgui.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "app/cli/progress_lines.h"
#include "app/window/gl_window.h"
#include "app/window/made_up_worker.h"
#include "app/window/main_window.h"
#include "formats/text_input.h"
#include "protocol/error_info.h"
#include "widgets/map_image.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// After input or an answer so many frames are drawn: ImGui needs a second one to settle sizes.
constexpr int kFramesAfterEvent = 3;
constexpr double kAnimatedWait = 0.08, kIdleWait = 1.0, kHeadlessWait = 0.25;

protocol::WorkerCommand worker_command(const WindowOptions& options) {
  return options.remote.empty() ? protocol::local_worker(options.worker_arguments)
                                : protocol::remote_worker(options.remote, options.worker_arguments);
}

// A screenshot shows what anyone gets, not what this user had open last.
LoadedSession session_of(const WindowOptions& options) {
  LoadedSession loaded{default_session(), ""};
  if (!options.session.empty())
    loaded = load_session(formats::real_file_system(), options.session);
  else if (options.screenshot.empty())
    loaded = load_session(formats::real_file_system(), default_session_path());
  Session& session = loaded.session;
  if (!options.models.empty()) session.models = options.models;
  if (!options.theme.empty()) session.theme = options.theme;
  if (!options.text_file.empty()) {
    session.text.words = formats::read_text_file(options.text_file);
    session.text.name = options.text_file;
  }
  return loaded;
}

void save(MainWindow& main_window, const WindowOptions& options) {
  const fs::path path = options.session.empty() ? default_session_path() : options.session;
  try {
    save_session(formats::real_file_system(), path, main_window.session_to_save());
  } catch (const formats::Error& error) {
    std::fprintf(stderr, "phasescope: the session was not saved: %s\n", error.full_text().c_str());
    main_window.window().say("The session was not saved: " + error.full_text(), true);
  }
}

void draw_frame(GlWindow& gl_window, MainWindow& main_window) {
  gl_window.begin_frame();
  main_window.draw(gl_window.scale());
  ImGui::Render();
}

// Draws while something happens and sleeps otherwise.
void run_until_closed(GlWindow& gl_window, MainWindow& main_window, const WindowOptions& options) {
  int frames = kFramesAfterEvent;
  while (!gl_window.closed() && !main_window.window().quit) {
    const bool animated = main_window.animated();
    const double pause = frames > 0 ? 0 : animated ? kAnimatedWait : kIdleWait;
    if (gl_window.wait(pause)) frames = kFramesAfterEvent;
    const bool jobs_seen = main_window.view("jobs")->visible();
    if (frames <= 0 && !animated && !jobs_seen && !ImGui::GetIO().WantTextInput) continue;
    draw_frame(gl_window, main_window);
    gl_window.present();
    main_window.start_asking();
    frames = std::max(0, frames - 1);
    if (main_window.window().save_session) {
      main_window.window().save_session = false;
      save(main_window, options);
      main_window.window().say("The session was saved");
    }
  }
}

// How many of the answers asked for so far are still to come, every few seconds.
class WaitingLines {
 public:
  void tell(std::size_t waiting) {
    most_ = std::max(most_, waiting);
    const double done =
        1 - static_cast<double>(waiting) / std::max(1.0, static_cast<double>(most_));
    const auto line = lines_.line(done, std::to_string(waiting) + " answers to come");
    if (line) std::fprintf(stderr, "%s\n", line->c_str());
  }

 private:
  ProgressLines lines_;
  std::size_t most_ = 0;
};

// Draws until every answer is there, then some frames more, and saves what is seen.
void take_screenshot(GlWindow& gl_window, MainWindow& main_window, const WindowOptions& options) {
  const auto begin = Clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  main_window.start_asking();
  int calm = 0;
  WaitingLines lines;
  while (calm < std::max(2, options.frames) && waited() < options.patience) {
    draw_frame(gl_window, main_window);
    calm = main_window.settled() && !main_window.animated() ? calm + 1 : 0;
    if (!options.quiet) lines.tell(static_cast<std::size_t>(main_window.requests().waiting()));
    // Nobody sees the frames before the last ones: rasterising them would slow the workers down.
    if (calm > 0)
      gl_window.present();
    else
      gl_window.wait(kHeadlessWait);
  }
  if (calm == 0) gl_window.present();
  if (main_window.requests().waiting() > 0)
    std::fprintf(stderr, "phasescope: the picture was taken before every answer had come\n");
  const std::string png = widgets::png_of(gl_window.picture());
  formats::FileSystem& files = formats::real_file_system();
  if (options.screenshot.has_parent_path())
    formats::make_directories(files, options.screenshot.parent_path());
  formats::write_file_atomically(files, options.screenshot, std::string_view(png));
}

double thread_cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Seconds since this process was started, to the 10 ms of /proc.
double process_age() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::unique_ptr<GlWindow> any_surface(int width, int height) {
  try {
    return std::make_unique<GlWindow>(GlWindowOptions{width, height, false, "Phasescope"});
  } catch (const formats::Error&) {
    return std::make_unique<GlWindow>(GlWindowOptions{width, height, true, "Phasescope"});
  }
}

protocol::BenchRow row_of(const std::string& name, const std::string& unit,
                          std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  protocol::BenchRow row;
  row.name = name, row.unit = unit;
  row.value = values[static_cast<std::size_t>(std::lround(part * last))];
  row.min = values.front(), row.max = values.back();
  row.runs = static_cast<int64_t>(values.size());
  return row;
}

}  // namespace

int run_window(const WindowOptions& options) {
  LoadedSession loaded = session_of(options);
  const bool picture = !options.screenshot.empty();
  // Workers outlive neither the questions that wait for them nor the window they wake.
  GlWindow gl_window({options.width, options.height, picture, "Phasescope"});
  const auto quick = link_to(worker_command(options));
  const auto slow = link_to(worker_command(options));
  quick->set_wake([&gl_window] { gl_window.wake(); });
  slow->set_wake([&gl_window] { gl_window.wake(); });
  MainWindow main_window(std::move(loaded.session), *quick, *slow);
  if (!loaded.warning.empty()) main_window.window().say(loaded.warning, true);
  if (picture) {
    take_screenshot(gl_window, main_window, options);
    if (!main_window.requests().gave_up()) return 0;
    std::fprintf(stderr, "phasescope: %s\n", main_window.requests().death_notice().c_str());
    return protocol::exit_status(protocol::error_code::worker_died);
  }
  run_until_closed(gl_window, main_window, options);
  save(main_window, options);
  return 0;
}

protocol::BenchResult bench_window(int frames) {
  const auto gl_window = any_surface(1600, 1000);
  MadeUpWorker link({32, 32, 4096, 64, 4096});
  Session session = default_session();
  session.models = {"bench"};
  MainWindow main_window(std::move(session), link, link);
  draw_frame(*gl_window, main_window);
  gl_window->present();
  const double first = process_age();
  main_window.start_asking();
  std::vector<double> own, whole;
  for (int i = 0; i < frames + 20; ++i) {
    const auto begin = Clock::now();
    const double before = thread_cpu_ms();
    gl_window->wait(0);
    draw_frame(*gl_window, main_window);
    const double after = thread_cpu_ms();
    gl_window->present();
    if (i < 20) continue;  // answers arrive and textures are made
    own.push_back(after - before);
    whole.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  protocol::BenchResult result;
  result.device = gl_window->renderer();
  result.rows.push_back({"first_frame", "s", first, first, first, 1});
  result.rows.push_back(row_of("frame_own_p99", "ms", own, 0.99));
  result.rows.push_back(row_of("frame_own_median", "ms", own, 0.5));
  result.rows.push_back(row_of("frame_whole_median", "ms", whole, 0.5));
  result.rows.push_back(row_of("frame_whole_p99", "ms", whole, 0.99));
  return result;
}

}  // namespace phasescope::app
