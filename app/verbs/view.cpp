#include "app/verbs/view.h"

#include <algorithm>
#include <csignal>

#include "app/cli/given_input.h"
#include "app/cli/worker_run.h"
#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "app/window/session_file.h"
#include "formats/error.h"
#include "protocol/error_info.h"
#include "protocol/messages/models.h"

namespace phasescope::app {

namespace {

constexpr std::int64_t kFrames = 3;

class ViewVerb : public Verb {
 public:
  explicit ViewVerb(int (*open)(const WindowOptions&)) : open_(open) {}
  std::string name() const override { return "view"; }
  std::string help() const override { return "the window"; }
  std::string example() const override {
    return "phasescope view rope --screenshot out/window.png";
  }
  Takes takes() const override { return {.out = false, .json = false}; }
  void declare(Options& options) override {
    options.arguments("MODEL", models_,
                      "models to open (default: those of the last session), or a .phasescope file, "
                      "as --session",
                      false);
    options.request(settings_);
    options.option("--text", text_, "file that the models read");
    options.option("--session", session_, "session file (default: the user's own)");
    options.option(
        "--screenshot", screenshot_,
        "draw without a display into this .png, or every view into this folder, and exit");
    options.option(
        "--record", record_,
        "draw every view of the first session without a display, and write the answers here");
    options.option("--frames", frames_,
                   "with --screenshot: frames drawn after the last answer has come", 1, 100'000);
    options.repeated("--command", commands_,
                     "with --screenshot: a command of the palette that is run before, e.g. "
                     "view.demand or demand.run (may be repeated)");
    options.choice("--theme", theme_, {"light", "dark"}, "colours, instead of the session's");
    options.option("--size", size_, "size of the window, WxH pixels");
    options.request(place_);
  }
  Output run(Run& run) override {
    take_session();
    require_utf8(models_);
    check_together();
    const CommonOptions& common = run.common();
    WindowOptions window;
    for (const std::string& model : models_) {
      window.models.push_back(with_settings(model, settings_.set));
    }
    window.text_file = text_;
    window.session = session_;
    window.screenshot = screenshot_;
    window.commands = commands_;
    window.record = record_;
    window.theme = theme_;
    window.frames = static_cast<int>(frames_);
    window.remote = common.remote;
    window.quiet = common.quiet;
    window.worker_arguments = worker_arguments(place_);
    read_size(window);
    // The window listens itself, and what draws a picture is ended at once: nobody would look at
    // what a verb notes of a Ctrl-C.
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
    Output output;
    output.status = open_or_name_unknown(run, window);
    for (const std::string& file : {screenshot_, record_}) {
      if (!file.empty()) run.say("wrote " + file);
    }
    return output;
  }

 private:
  // A window shows which model is unknown; one that cannot be opened has nowhere to, and that there
  // is no display helps nobody who mistyped a name.
  int open_or_name_unknown(Run& run, const WindowOptions& window) const {
    try {
      return open_(window);
    } catch (const formats::Error&) {
      if (screenshot_.empty() && !models_.empty()) find_models(run);
      throw;
    }
  }

  // Throws RequestError where one is not there; a worker that cannot be asked knows of none.
  void find_models(Run& run) const {
    try {
      run.call(protocol::FindRequest{models_});
    } catch (const protocol::RequestError& error) {
      if (error.info().code == protocol::error_code::bad_input) throw;
    }
  }

  // Desktops name a session's file as they name any other.
  void take_session() {
    const auto is_session = [](const std::string& word) { return word.ends_with(kSessionEnding); };
    for (const std::string& word : models_) {
      if (!is_session(word)) continue;
      if (!session_.empty()) {
        throw formats::bad_usage("two sessions are named", word, "open one at a time");
      }
      session_ = word;
    }
    std::erase_if(models_, is_session);
  }

  // What would be dropped is refused.
  void check_together() const {
    if (models_.empty() && !settings_.set.list.empty()) {
      throw formats::bad_usage("settings are for models that the command names", "--set",
                               "name the MODEL");
    }
    if (screenshot_.empty() && frames_ != kFrames) {
      throw formats::bad_usage("frames are counted only for a picture", "--frames",
                               "add --screenshot");
    }
    if (screenshot_.empty() && !commands_.empty()) {
      throw formats::bad_usage("commands are run only before a picture", "--command",
                               "add --screenshot");
    }
    if (record_.empty()) return;
    const bool looks = !theme_.empty() || !size_.empty();
    if (!models_.empty() || !text_.empty() || !session_.empty() || !screenshot_.empty() || looks) {
      throw formats::bad_usage("a recording is of the first session, with its own models and text",
                               "--record", "give it alone");
    }
  }

  void read_size(WindowOptions& window) const {
    if (size_.empty()) return;
    const bool known = size_.find_first_not_of("0123456789x") == std::string::npos;
    const bool both = !size_.starts_with('x') && !size_.ends_with('x');
    if (!known || !both || std::ranges::count(size_, 'x') != 1) {
      throw formats::bad_usage("expected WxH but got \"" + size_ + "\"", "--size");
    }
    std::string size = size_;
    size[size.find('x')] = ':';
    const auto sides = integer_range(size, "--size");
    if (sides[0] < 320 || sides[1] < 240 || sides[0] > 16384 || sides[1] > 16384) {
      throw formats::bad_usage("a window is from 320x240 to 16384x16384 pixels", "--size");
    }
    window.width = static_cast<int>(sides[0]), window.height = static_cast<int>(sides[1]);
  }

  int (*open_)(const WindowOptions&);
  std::vector<std::string> models_, commands_;
  std::string text_, session_, screenshot_, record_, theme_, size_;
  std::int64_t frames_ = kFrames;
  protocol::ModelSettings settings_;
  protocol::Place place_;
};

}  // namespace

std::unique_ptr<Verb> view_verb(int (*open)(const WindowOptions&)) {
  return std::make_unique<ViewVerb>(open);
}

std::unique_ptr<Verb> view_verb() { return view_verb(&run_window); }

}  // namespace phasescope::app
