#include "app/window_main.h"

#include <imgui.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <set>

#include "app/cli/output.h"
#include "app/window/gl_window.h"
#include "app/window/host_link.h"
#include "app/window/main_window.h"
#include "app/window/opening.h"
#include "app/window/recorded_link.h"
#include "app/window/session_file.h"
#include "app/window/waiting_lines.h"
#include "formats/error.h"
#include "formats/near_names.h"
#include "formats/text_input.h"
#include "protocol/error_info.h"
#include "widgets/map_image.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// After input or an answer so many frames are drawn: ImGui needs a second one to settle sizes.
constexpr int kFramesAfterEvent = 3;
// What was not recorded does not come before the worker.
constexpr double kPatienceWithoutWorker = 5;
// The recording among the bundled files.
constexpr const char* kRecording = "first_session.safetensors";
constexpr double kIdleWait = 1.0, kHeadlessWait = 0.25;
// A caret blinks so often.
constexpr double kCaretWait = 0.5;

void complain(const std::string& sentence) {
  std::fprintf(stderr, "phasescope: %s\n", for_terminal(sentence).c_str());
}

std::string lower_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

// Any other name is that of a folder.
bool is_picture_file(const fs::path& path) { return lower_extension(path) == ".png"; }

// Answers may take minutes; that their picture cannot be written is said before.
void require_place_of_pictures(const fs::path& path) {
  static const std::set<std::string> others = {".jpg", ".jpeg", ".svg", ".pdf", ".webp", ".gif"};
  if (others.contains(lower_extension(path)) && !fs::is_directory(path)) {
    throw formats::bad_usage("the window's picture is a .png", path.string(),
                             "name a .png, or a folder for one of every view");
  }
  require_writable_place(is_picture_file(path) ? fs::absolute(path).parent_path() : path);
}

protocol::WorkerCommand worker_command(const WindowOptions& options) {
  return options.remote.empty() ? protocol::local_worker(options.worker_arguments)
                                : protocol::remote_worker(options.remote, options.worker_arguments);
}

// The worker, or the recording of the first session while it is still being built.
std::unique_ptr<WorkerLink> worker_link(const WindowOptions& options,
                                        std::shared_ptr<const Recording>& recording) {
  auto live = link_to(worker_command(options));
  if (!options.remote.empty()) return live;
  WorkerWatch watch(protocol::local_worker().argv[0]);
  if (!watch.awaited()) return live;
  try {
    if (!recording) {
      recording = std::make_shared<const Recording>(Recording::read(assets_folder() / kRecording));
    }
  } catch (const formats::Error& error) {
    complain(error.full_text());
    recording = std::make_shared<const Recording>();  // everything waits for the worker
  }
  return std::make_unique<RecordedLink>(recording, std::move(live), std::move(watch));
}

fs::path session_path(const WindowOptions& options) {
  return options.session.empty() ? default_session_path() : options.session;
}

// load_session() would move a folder, a device or a pipe away, and a device may never end. A pipe
// has nothing to keep: a picture reads it once.
void require_file(const fs::path& session, bool kept) {
  std::error_code none;
  const fs::file_status status = fs::status(session, none);
  const bool pipe = fs::is_fifo(status);
  if (!fs::exists(status) || fs::is_regular_file(status) || (pipe && !kept)) return;
  const std::string what = fs::is_directory(status) ? "folder" : pipe ? "pipe" : "device";
  throw formats::bad_input("this is a " + what + ", and a session is a file", session.string());
}

// A picture shows what anyone gets, not what this user had open last, and of a session that is
// named that one or nothing.
LoadedSession named_session(const WindowOptions& options) {
  formats::FileSystem& files = formats::real_file_system();
  if (!options.session.empty()) require_file(options.session, options.screenshot.empty());
  if (options.screenshot.empty()) return load_session(files, session_path(options));
  if (options.session.empty()) return {default_session(), ""};
  return {read_session(files, options.session), ""};
}

LoadedSession session_of(const WindowOptions& options) {
  LoadedSession loaded = named_session(options);
  Session& session = loaded.session;
  if (!options.models.empty()) session.models = options.models;
  // A worker elsewhere has other folders.
  if (options.remote.empty()) {
    for (std::string& model : session.models) model = lasting_name(model);
  }
  if (!options.theme.empty()) session.theme = options.theme;
  if (!options.text_file.empty()) {
    session.text.words = formats::read_text_file(options.text_file);
    session.text.name = fs::absolute(options.text_file).lexically_normal().string();
    session.region = {};
  }
  return loaded;
}

// Set by a signal that asks the program to end; the loop sees it within a second.
volatile std::sig_atomic_t ended_by = 0;

void note_end(int signal) { ended_by = signal; }

void hear_of_the_end() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, note_end);
}

// Keeps the session in its file as it changes.
class SessionKeeper {
 public:
  SessionKeeper(MainWindow& main_window, const WindowOptions& options, bool occupied)
      : main_window_(main_window),
        saver_(formats::real_file_system(), session_path(options)),
        occupied_(occupied) {}

  // Once in each turn of the loop.
  void look() {
    if (occupied_) return;
    const auto now = Clock::now();
    if (main_window_.edit().revision() != revision_ || ImGui::GetIO().WantSaveIniSettings) {
      saver_.changed(now);
    }
    revision_ = main_window_.edit().revision();
    ImGui::GetIO().WantSaveIniSettings = false;
    if (saver_.due(now)) saver_.write_aside(main_window_.session_to_save());
    if (const std::string trouble = saver_.trouble(); !trouble.empty()) {
      main_window_.window().say(trouble, true);
    }
    if (std::exchange(main_window_.window().save_session, false)) save_now();
  }

  // Seconds until look() has something to write.
  double due_in() const { return saver_.due_in(Clock::now()); }

  // The last time.
  void finish() {
    if (occupied_) return;
    const std::string trouble = saver_.write_now(main_window_.session_to_save());
    if (!trouble.empty()) complain(trouble);
  }

 private:
  void save_now() {
    const std::string trouble = saver_.write_now(main_window_.session_to_save());
    main_window_.window().say(trouble.empty() ? "The session was saved" : trouble,
                              !trouble.empty());
  }

  MainWindow& main_window_;
  SessionSaver saver_;
  bool occupied_;  // by a file that may not be written over
  std::uint64_t revision_ = 1;
};

void draw_frame(GlWindow& gl_window, MainWindow& main_window) {
  gl_window.begin_frame();
  main_window.draw(gl_window.scale());
  ImGui::Render();
}

// Draws while something happens and sleeps otherwise: it wakes to write the session's file, and
// once a second to see whether it is to end, and then draws nothing.
void run_until_closed(GlWindow& gl_window, MainWindow& main_window, SessionKeeper& keeper) {
  int frames = kFramesAfterEvent;
  auto drawn = Clock::now();
  while (!gl_window.closed() && !main_window.window().quit && !ended_by) {
    const double wanted =
        std::min(main_window.next_frame_in(), ImGui::GetIO().WantTextInput ? kCaretWait : 1e9);
    const std::chrono::duration<double> since = Clock::now() - drawn;
    keeper.look();
    const double idle = std::min(kIdleWait, keeper.due_in());
    const double pause = frames > 0 ? 0 : std::clamp(wanted - since.count(), 0.0, idle);
    if (gl_window.wait(pause)) frames = kFramesAfterEvent;
    const std::chrono::duration<double> waited = Clock::now() - drawn;
    if (frames <= 0 && waited.count() < wanted) continue;
    draw_frame(gl_window, main_window);
    gl_window.present();
    main_window.start_asking();
    drawn = Clock::now();
    frames = std::max(0, frames - 1);
  }
}

// Draws until every answer is there, then some frames more.
void draw_until_settled(GlWindow& gl_window, MainWindow& main_window,
                        const WindowOptions& options) {
  const auto begin = Clock::now();
  const auto waited = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  main_window.start_asking();
  int calm = 0;
  WaitingLines lines;
  const bool recorded = !main_window.requests().recorded().empty();
  const double patience = recorded ? kPatienceWithoutWorker : options.patience;
  while (calm < std::max(2, options.frames) && waited() < patience) {
    draw_frame(gl_window, main_window);
    calm = main_window.settled() && !main_window.animated() ? calm + 1 : 0;
    const auto waiting = static_cast<std::size_t>(main_window.requests().waiting());
    if (const auto line = lines.line(waiting); line && !options.quiet) {
      std::fprintf(stderr, "%s\n", line->c_str());
    }
    // Nobody sees the frames before the last ones: rasterising them would slow the workers down.
    if (calm > 0) {
      gl_window.present();
    } else {
      gl_window.wait(kHeadlessWait);
    }
  }
  if (calm == 0) gl_window.present();
  if (main_window.requests().waiting() > 0) {
    complain("the picture was taken before every answer had come");
  }
}

// Throws Error "bad_usage" that names near commands where there is none of that name.
const Command& command_named(const MainWindow& main_window, const std::string& id) {
  std::vector<std::string> known;
  for (const Command& command : main_window.commands()) {
    if (command.id == id) return command;
    known.push_back(command.id);
  }
  throw formats::bad_usage("there is no command \"" + id + "\"" + formats::near_names(id, known),
                           "--command");
}

void write_picture(const GlWindow& gl_window, const fs::path& path) {
  const std::string png = widgets::png_of(gl_window.picture());
  formats::FileSystem& files = formats::real_file_system();
  if (path.has_parent_path()) formats::make_directories(files, path.parent_path());
  formats::write_file_atomically(files, path, std::string_view(png));
}

// Into one file, or into a folder one of each view brought forward.
void take_screenshot(GlWindow& gl_window, MainWindow& main_window, const WindowOptions& options) {
  for (const std::string& id : options.commands) command_named(main_window, id);
  draw_until_settled(gl_window, main_window, options);
  for (const std::string& id : options.commands) {
    command_named(main_window, id).run(main_window.context());
    draw_until_settled(gl_window, main_window, options);
  }
  if (is_picture_file(options.screenshot)) return write_picture(gl_window, options.screenshot);
  for (const std::string& id : main_window.view_ids()) {
    show_view(main_window.context(), id);
    draw_until_settled(gl_window, main_window, options);
    write_picture(gl_window, options.screenshot / (id + ".png"));
  }
}

// 0, or that of the first model that could not be opened: the picture shows why, a script needs to
// know.
int status_of_models(ViewContext context) {
  int status = 0;
  for (const std::string& model : context.session().models) {
    const auto& info = context.requests.of(kInfo, model);
    if (!info.failed()) continue;
    complain(protocol::describe(info.error()));
    if (status == 0) status = protocol::exit_status(info.error().code);
  }
  return status;
}

// Brings every view of the first session forward, and keeps what workers answer.
int record_first_session(const WindowOptions& options) {
  GlWindow gl_window({options.width, options.height, true, "Phasescope"});
  const auto recording = std::make_shared<Recording>();
  const auto quick = recording_link(link_to(worker_command(options)), recording);
  const auto slow = recording_link(link_to(worker_command(options)), recording);
  MainWindow main_window(default_session(), *quick, *slow);
  for (const std::string& id : main_window.view_ids()) {
    show_view(main_window.context(), id);
    draw_until_settled(gl_window, main_window, options);
    if (main_window.requests().waiting() > 0 || main_window.requests().gave_up()) {
      throw formats::internal_error("the answers of the view '" + id + "' did not come");
    }
  }
  recording->write(formats::real_file_system(), options.record);
  return 0;
}

}  // namespace

int run_window(const WindowOptions& options) {
  if (!options.record.empty()) return record_first_session(options);
  const bool picture = !options.screenshot.empty();
  if (picture) require_place_of_pictures(options.screenshot);
  LoadedSession loaded = session_of(options);
  // Workers outlive neither the questions that wait for them nor the window they wake.
  GlWindow gl_window({options.width, options.height, picture, "Phasescope"});
  std::shared_ptr<const Recording> recording;
  const auto make = [&](const std::string& host) {
    WindowOptions there = options;
    there.remote = host;
    return worker_link(there, recording);
  };
  HostLink quick(options.remote, make), slow(options.remote, make);
  for (HostLink* link : {&quick, &slow}) link->set_wake([&gl_window] { gl_window.wake(); });
  MainWindow main_window(std::move(loaded.session), quick, slow);
  main_window.window().remote = options.remote;
  main_window.window().connect = [&](const std::string& host) {
    for (HostLink* link : {&quick, &slow}) link->go_to(host);
    main_window.window().remote = host;
    main_window.requests().begin_anew();
  };
  gl_window.set_on_drop([&](const std::vector<std::string>& paths) {
    for (const std::string& path : paths) open_any(main_window.context(), path);
  });
  if (!loaded.warning.empty()) main_window.window().say(loaded.warning, true);
  if (picture) {
    take_screenshot(gl_window, main_window, options);
    if (!main_window.requests().gave_up()) return status_of_models(main_window.context());
    complain(main_window.requests().death_notice());
    return protocol::exit_status(protocol::error_code::worker_died);
  }
  hear_of_the_end();
  SessionKeeper keeper(main_window, options, loaded.occupied);
  run_until_closed(gl_window, main_window, keeper);
  keeper.finish();
  return ended_by ? 128 + ended_by : 0;
}

}  // namespace phasescope::app
