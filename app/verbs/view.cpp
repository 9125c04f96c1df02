#include "app/verbs/factories.h"
#include "app/verbs/verb.h"
#include "app/window_main.h"
#include "formats/error.h"

namespace phasescope::app {

namespace {

class ViewVerb : public Verb {
 public:
  std::string name() const override { return "view"; }
  std::string help() const override { return "the window"; }
  std::string example() const override {
    return "phasescope view rope tapa_norm --screenshot out/window.png";
  }
  Takes takes() const override { return {.out = false, .json = false}; }
  void declare(Options& options) override {
    options.arguments("MODEL", models_, "models to open (default: those of the last session)",
                      false);
    options.repeated("--set", set_.list, "override, e.g. encoding.base=1e6 (may be repeated)");
    options.option("--text", text_, "file that the models read");
    options.option("--session", session_, "session file (default: the user's own)");
    options.option("--screenshot", screenshot_, "draw without a display, save this .png, leave");
    options.option("--record", record_,
                   "draw every view of the first session without a display, keep the answers here");
    options.option("--frames", frames_, "frames drawn after the last answer has come");
    options.choice("--theme", theme_, {"light", "dark"}, "instead of the session's");
    options.option("--size", size_, "of the window, WxH pixels");
    options.option("--device", device_, "of the worker: cpu or cuda[:i]");
    options.option("--threads", threads_, "threads of the worker", 1, 1024);
  }
  Output run(Run& run) override {
    const CommonOptions& common = run.common();
    WindowOptions window;
    for (const std::string& model : models_) window.models.push_back(with_settings(model, set_));
    window.text_file = text_;
    window.session = session_;
    window.screenshot = screenshot_;
    window.record = record_;
    window.theme = theme_;
    window.frames = static_cast<int>(frames_);
    window.remote = common.remote;
    window.quiet = common.quiet;
    if (!device_.empty()) window.worker_arguments = {"--device", device_};
    if (threads_ > 0) {
      window.worker_arguments.push_back("--threads");
      window.worker_arguments.push_back(std::to_string(threads_));
    }
    read_size(window);
    Output output;
    output.status = run_window(window);
    for (const std::string& file : {screenshot_, record_})
      if (!file.empty()) run.say("wrote " + file);
    return output;
  }

 private:
  void read_size(WindowOptions& window) const {
    if (size_.empty()) return;
    std::string size = size_;
    if (const auto cross = size.find('x'); cross != std::string::npos) size[cross] = ':';
    const auto sides = integer_range(size, "--size");
    if (sides[0] < 320 || sides[1] < 240 || sides[0] > 16384 || sides[1] > 16384) {
      throw formats::bad_usage("a window is from 320x240 to 16384x16384 pixels", "--size");
    }
    window.width = static_cast<int>(sides[0]), window.height = static_cast<int>(sides[1]);
  }

  std::vector<std::string> models_;
  std::string text_, session_, screenshot_, record_, theme_, size_;
  int64_t frames_ = 3, threads_ = 0;
  std::string device_;
  protocol::Assignments set_;
};

}  // namespace

std::unique_ptr<Verb> view_verb() { return std::make_unique<ViewVerb>(); }

}  // namespace phasescope::app
