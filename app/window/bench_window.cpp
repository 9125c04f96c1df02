// `bench window`: how long frames take, with as much to draw as the window can show.
#include <imgui.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/views/heads_view.h"
#include "app/views/map_view.h"
#include "app/views/text_view.h"
#include "app/window/bench_models.h"
#include "app/window/gl_window.h"
#include "app/window/main_window.h"
#include "app/window/urgent_link.h"
#include "app/window_main.h"
#include "formats/error.h"

namespace phasescope::app {
namespace {

using Clock = std::chrono::steady_clock;

// Frames in which the first answers arrive and textures are made.
constexpr int kFirstFrames = 20;
// Models of the wide session, and how long it is worked on.
constexpr int kWideModels = 8;
constexpr std::chrono::seconds kMinute{60}, kSettling{10};
// A hand does something else in one of so many frames.
constexpr int kFramesOfOneMove = 6;

// Seconds between frames while the window waits for an answer.
constexpr double kFramePause = 0.08;
// How long until it is told that none comes, too: a first pass over 32,768 tokens takes minutes on
// two cores.
constexpr double kPatience = 900;

// Zooms by a worker, so many of them, each to an eighth of the text.
struct ZoomBench {
  const char* name;
  std::int64_t tokens;
  int runs;
};
constexpr ZoomBench kZooms[] = {{"zoom_4k", 4096, 5}, {"zoom_32k", 32768, 3}};

void draw_frame(GlWindow& gl_window, MainWindow& main_window) {
  gl_window.begin_frame();
  main_window.draw(gl_window.scale());
  ImGui::Render();
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
  row.runs = static_cast<std::int64_t>(values.size());
  return row;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Memory of this process in MB, without what its allocator keeps for later.
double resident_mb() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// Frames drawn one after the other, and what each of them cost.
class Frames {
 public:
  Frames(GlWindow& gl_window, MainWindow& main_window)
      : gl_window_(gl_window), main_window_(main_window) {}

  void draw() {
    const auto begin = Clock::now();
    const double before = thread_cpu_ms();
    gl_window_.wait(0);
    draw_frame(gl_window_, main_window_);
    const double own = thread_cpu_ms() - before;
    gl_window_.present();
    // What changed is made in the frame that shows it first, in the one after, or a part a frame
    // for as long as the window wants further ones.
    const std::uint64_t state = main_window_.edit().revision() + main_window_.requests().ends();
    if (state != state_ || main_window_.window().moving) revision_frames_ = kFramesOfRevision;
    state_ = state;
    (revision_frames_-- > 0 ? revisions_ : own_).push_back(own);
    whole_.push_back(seconds_since(begin) * 1e3);
  }
  void forget() { own_.clear(), revisions_.clear(), whole_.clear(); }
  // The program's own processor time of each frame in ms: of those in which nothing new was to be
  // made, and of those in which the session or an answer had changed.
  const std::vector<double>& own() const { return own_; }
  const std::vector<double>& revisions() const { return revisions_; }
  // From one frame to the next, rasterising too.
  const std::vector<double>& whole() const { return whole_; }

 private:
  static constexpr int kFramesOfRevision = 2;
  GlWindow& gl_window_;
  MainWindow& main_window_;
  std::vector<double> own_, revisions_, whole_;
  std::uint64_t state_ = 0;
  int revision_frames_ = 0;
};

// --- a hand at work ---------------------------------------------------------------------------

// Every few frames something else: another order of the heads, a search, a zoom, a step aside, a
// head; the pointer goes over all of the window meanwhile.
class Hand {
 public:
  explicit Hand(MainWindow& main_window) : main_window_(main_window) {}

  void move() {
    const ImVec2 size = ImGui::GetIO().DisplaySize;
    const double way = 0.013 * static_cast<double>(frame_);
    ImGui::GetIO().AddMousePosEvent(static_cast<float>((0.5 + 0.48 * std::sin(way * 3)) * size.x),
                                    static_cast<float>((0.5 + 0.48 * std::sin(way * 2)) * size.y));
    if (frame_++ % kFramesOfOneMove == 0) act(frame_ / kFramesOfOneMove);
  }

 private:
  void act(int step) {
    ViewContext& context = main_window_.context();
    auto heads = context.state<HeadsState>();
    switch (step % 6) {
      case 0:
        heads.sorted = !heads.sorted;
        return context.set_state("Sort heads", heads);
      case 1:
        heads.metric = heads.metric == "entropy" ? "sink" : "entropy";
        return context.set_state("Sort heads", heads);
      case 2:
        heads.search = heads.search.empty() ? "entropy>0.5" : "";
        return context.set_state("Search heads", heads);
      case 3:
        return show_region(context, {1024, 2048, 512 + step, 1536 + step});
      case 4:
        return show_region(context, {1100, 1164, 900 + step, 964 + step});
      default:
        return select_head(context, step % kWideModels, step % 32, step * 7 % 32);
    }
  }

  MainWindow& main_window_;
  std::int64_t frame_ = 0;
};

// --- wide models ------------------------------------------------------------------------------

std::vector<std::string> wide_models() {
  std::vector<std::string> names;
  for (int i = 0; i < kWideModels; ++i) names.push_back("wide" + std::to_string(i));
  return names;
}

// From clicks on heads to their maps, while the heads of all models are being measured.
struct Clicks {
  std::vector<double> ms;
  // Other answers that views took after the frame of the click, and before the map was on screen.
  // With what that frame began they had come before the click was dealt with.
  std::vector<double> before;
};

// Answers about the models that views have taken, but for maps.
std::uint64_t others_taken(const ViewContext& context) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < context.models(); ++i) {
    count +=
        context.of(kInfo, i).ends() + context.of(kHeads, i).ends() + context.of(kText, i).ends();
  }
  return count;
}

// Clicks as soon as the first model is open, and whenever the heads of one have come, until all
// have.
Clicks click_while_busy(Frames& frames, MainWindow& main_window, const BenchWorker& worker) {
  Clicks clicks;
  ViewContext& context = main_window.context();
  // A head can be clicked once its model is open; the others are still to be opened then.
  while (worker.answers(protocol::InfoRequest::method) < 1) frames.draw();
  int heads = -1;
  while (worker.answers(protocol::HeadsRequest::method) < kWideModels) {
    frames.draw();
    const int answered = worker.answers(protocol::HeadsRequest::method);
    if (answered == heads) continue;
    heads = answered;
    const auto begin = Clock::now();
    select_head(context, 0, 3 + heads, 5);
    frames.draw();  // deals with the click: the map is asked for
    const std::uint64_t others = others_taken(context);
    const auto is_there = [&] {
      const auto& question = context.of(kMap, 0);
      return question.answers_now() && question.answer()->result.layer == 3 + heads;
    };
    while (!is_there()) frames.draw();  // what comes at the start of a frame is in its picture
    clicks.before.push_back(static_cast<double>(others_taken(context) - others));
    frames.draw();  // that picture is on screen
    clicks.ms.push_back(seconds_since(begin) * 1e3);
  }
  return clicks;
}

// Eight models at once: while they come, and for a minute of work on them.
void add_wide_rows(GlWindow& gl_window, protocol::BenchResult& result) {
  auto own_worker = std::make_unique<BenchWorker>();
  const BenchWorker& worker = *own_worker;
  UrgentLink link(std::move(own_worker));
  Session session = default_session();
  session.models = wide_models();
  MainWindow main_window(std::move(session), link, link);
  Frames frames(gl_window, main_window);
  frames.draw();
  main_window.start_asking();
  const Clicks clicks = click_while_busy(frames, main_window, worker);
  Hand hand(main_window);
  const auto begin = Clock::now();
  double settled_mb = 0;
  while (Clock::now() - begin < kMinute + kSettling) {
    if (settled_mb == 0 && Clock::now() - begin > kSettling) settled_mb = resident_mb();
    hand.move();
    frames.draw();
  }
  const double growth = resident_mb() - settled_mb;
  result.rows.push_back(row_of("wide.frame_own_p99", "ms", frames.own(), 0.99));
  result.rows.push_back(row_of("wide.revision_max", "ms", frames.revisions(), 1));
  result.rows.push_back(row_of("wide.map_click", "ms", clicks.ms, 1));
  result.rows.push_back(row_of("wide.answers_before_map", "", clicks.before, 1));
  result.rows.push_back({"wide.memory_growth", "MB", growth, growth, growth, 1});
}

// --- zooms of a bundled model -----------------------------------------------------------------

// Printable and long enough for any length that is read.
std::string long_text(std::size_t bytes) {
  std::string text = default_session().text.words.str();
  if (text.empty()) text = "A text of many words. ";
  const std::string once = text;
  while (text.size() < bytes) text += once;
  return text;
}

// From a zoom to the sharp picture, a few times at that length, by a worker.
void add_zoom_row(GlWindow& gl_window, const ZoomBench& zoom, protocol::BenchResult& result) {
  const auto link = link_to(protocol::local_worker());
  link->set_wake([&gl_window] { gl_window.wake(); });
  Session session = default_session();
  session.models = {"rope"};
  session.text = {.name = TextInput::kTyped,
                  .words = long_text(static_cast<std::size_t>(zoom.tokens) * 8),
                  .length = zoom.tokens};
  // The map alone: nothing else is asked of the worker.
  MainWindow main_window(std::move(session), *link, *link);
  for (const std::string& id : main_window.view_ids()) {
    if (id != "map") {
      main_window.edit().apply_silently([&](Session& s) { s.closed_views.push_back(id); });
    }
  }
  Frames frames(gl_window, main_window);
  main_window.start_asking();
  ViewContext& context = main_window.context();
  const auto& question = context.of(kMap, 0);
  // As the window does: between frames the processor is the worker's.
  const auto draw_until_sharp = [&] {
    const auto asked = Clock::now();
    do {
      frames.draw();
      gl_window.wait(kFramePause);
      if (main_window.requests().gave_up() || seconds_since(asked) > kPatience) {
        throw formats::internal_error("the map of a bundled model did not come");
      }
    } while (!question.failed() && (question.waiting() || !question.answers_now()));
    frames.draw();
    if (!question.failed()) return;
    throw formats::Error(question.error().code, question.error().message);
  };
  draw_until_sharp();
  const std::int64_t size = zoom.tokens / 8;
  std::vector<double> ms;
  for (int run = 0; run < zoom.runs; ++run) {
    const std::int64_t at = (run + 1) * zoom.tokens / (zoom.runs + 2);
    const auto begin = Clock::now();
    show_region(context, {at, at + size, at - at / 4, at - at / 4 + size});
    draw_until_sharp();
    ms.push_back(seconds_since(begin) * 1e3);
  }
  result.rows.push_back(row_of(zoom.name, "ms", ms, 0.5));
}

}  // namespace

protocol::BenchResult bench_window(int frames) {
  const auto gl_window = any_surface(1600, 1000);
  protocol::BenchResult result;
  result.device = gl_window->renderer();
  {
    UrgentLink link(std::make_unique<BenchWorker>());
    Session session = default_session();
    session.models = {"bench"};
    MainWindow main_window(std::move(session), link, link);
    Frames drawn(*gl_window, main_window);
    drawn.draw();
    const double first = process_age();
    main_window.start_asking();
    while (!main_window.settled()) drawn.draw();
    for (int i = 0; i < kFirstFrames; ++i) drawn.draw();
    drawn.forget();
    for (int i = 0; i < frames; ++i) drawn.draw();
    result.rows.push_back({"first_frame", "s", first, first, first, 1});
    result.rows.push_back(row_of("frame_own_p99", "ms", drawn.own(), 0.99));
    result.rows.push_back(row_of("frame_own_median", "ms", drawn.own(), 0.5));
    result.rows.push_back(row_of("frame_whole_median", "ms", drawn.whole(), 0.5));
    result.rows.push_back(row_of("frame_whole_p99", "ms", drawn.whole(), 0.99));
  }
  add_wide_rows(*gl_window, result);
  // A window without its worker is measured without what the worker does.
  if (!std::filesystem::exists(protocol::local_worker().argv[0])) return result;
  for (const ZoomBench& zoom : kZooms) add_zoom_row(*gl_window, zoom, result);
  return result;
}

}  // namespace phasescope::app
