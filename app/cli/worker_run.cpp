#include "app/cli/worker_run.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "app/cli/given_input.h"
#include "app/cli/output.h"
#include "formats/error.h"
#include "protocol/model_reading.h"

namespace phasescope::app {

using nlohmann::json;

namespace {

std::atomic<bool> interrupt_seen = false;

// The first Ctrl-C, or SIGTERM, cancels the request; a second one ends the program at once.
void note_interrupt(int) {
  if (interrupt_seen.exchange(true)) _exit(130);
}

// Of the terminal that standard error is; 80 where it does not say.
std::size_t terminal_columns() {
  winsize size{};
  const bool told = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : 80;
}

// Without the settings that a name may carry.
std::vector<std::string> models_named_in(const json& params) {
  std::vector<std::string> names;
  const auto add = [&names](const json& value) {
    if (value.is_string()) names.push_back(protocol::model_reading(value.get<std::string>()).model);
  };
  for (const char* key : {"model", "a", "b"}) {
    if (params.contains(key)) add(params[key]);
  }
  if (params.contains("models") && params["models"].is_array()) {
    for (const json& item : params["models"]) add(item);
  }
  return names;
}

}  // namespace

std::vector<std::string> worker_arguments(const protocol::Place& place) {
  std::vector<std::string> arguments;
  if (!place.device.empty()) arguments.insert(arguments.end(), {"--device", place.device});
  if (place.threads > 0) {
    arguments.insert(arguments.end(), {"--threads", std::to_string(place.threads)});
  }
  return arguments;
}

void become_worker(std::vector<std::string> arguments) {
  protocol::WorkerCommand command = protocol::local_worker(std::move(arguments));
  std::vector<char*> argv;
  for (std::string& word : command.argv) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw formats::bad_input(
      "the worker program could not be started: " + std::string(std::strerror(errno)),
      command.argv[0]);
}

WorkerRun::WorkerRun(CommonOptions common, std::string command)
    : common_(std::move(common)), command_(std::move(command)) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, note_interrupt);
}

protocol::Reply WorkerRun::call(const std::string& method, json params) {
  const NameOfText name = tell_name_of_text(params);
  require_utf8(params);
  if (!client_) {
    protocol::ClientOptions options;
    options.command =
        common_.remote.empty()
            ? protocol::local_worker(worker_arguments(protocol::part_of<protocol::Place>(params)))
            : protocol::remote_worker(common_.remote,
                                      worker_arguments(protocol::part_of<protocol::Place>(params)));
    client_ = std::make_unique<protocol::WorkerClient>(std::move(options));
  }
  tell_hidden_folders(params);
  progress_.restart();
  protocol::CallOptions options;
  options.on_progress = [this](double fraction, const std::string& text) {
    show_progress(fraction, text);
  };
  // What is asked about jobs is answered at once, and after Ctrl-C it is what has them saved.
  if (!method.starts_with("jobs.")) options.should_cancel = [this] { return asked_to_stop(); };
  protocol::Reply reply;
  try {
    reply = client_->call(method, std::move(params), options);
  } catch (const protocol::RequestError& error) {
    show_progress(0, "");
    protocol::ErrorInfo told = as_unreachable(error.info());
    // Whatever is asked next gets another worker: a verb may have much left to ask.
    if (error.info().code == protocol::error_code::worker_died) client_.reset();
    throw protocol::RequestError(std::move(told));
  }
  show_progress(0, "");
  put_back_name(reply.result, name);
  return reply;
}

void WorkerRun::tell_fallback(const protocol::Provenance& provenance) {
  const auto has_reason = [](const protocol::Ran& ran) { return !ran.reason.empty(); };
  if (std::ranges::none_of(provenance.ran, has_reason)) return;
  if (told_.insert(provenance.kernel).second) say("attention ran " + provenance.kernel);
}

// A worker on another host that never said hello is not there: ssh did not get to it, or the host
// has none.
protocol::ErrorInfo WorkerRun::as_unreachable(protocol::ErrorInfo error) const {
  const bool never_there = !common_.remote.empty() && !client_->worker_hello();
  if (!never_there || error.code != protocol::error_code::worker_died) return error;
  error.code = protocol::error_code::device_unavailable;
  error.message = "no worker could be reached on this host";
  error.where = common_.remote;
  return error;
}

// A folder here that a bundled model's name hides is worth a line.
void WorkerRun::tell_hidden_folders(const json& params) {
  if (!common_.remote.empty()) return;  // folders are the other host's
  for (const std::string& name : models_named_in(params)) {
    std::error_code error;
    const bool folder = name.find('/') == name.npos && std::filesystem::is_directory(name, error);
    if (!folder || !told_.insert(name).second) continue;
    const json models = client_->call("models.list", json::object()).result["models"];
    const bool bundled = std::any_of(models.begin(), models.end(), [&](const json& model) {
      return model.value("name", "") == name;
    });
    if (bundled) say(name + " is the bundled model; the folder of that name here is ./" + name);
  }
}

void WorkerRun::say(const std::string& line) {
  if (common_.quiet) return;
  show_progress(0, "");
  std::fprintf(stderr, "%s\n", for_terminal(line).c_str());
}

void WorkerRun::show_progress(double told, const std::string& text) {
  static const bool terminal = isatty(STDERR_FILENO);
  if (common_.quiet) return;
  if (!terminal) {
    const auto line = progress_.line(told, text);
    if (line) std::fprintf(stderr, "%s\n", line->c_str());
    return;
  }
  if (text.empty()) {
    if (bar_shown_) std::fprintf(stderr, "\r\033[K");
    bar_shown_ = false;
    return;
  }
  const std::string bar = progress_bar(progress_.fraction(told), text, terminal_columns());
  std::fprintf(stderr, "\r\033[K%s", bar.c_str());
  std::fflush(stderr);
  bar_shown_ = true;
}

bool WorkerRun::asked_to_stop() {
  if (!interrupted()) return false;
  const std::string line = "stopping; asked once more, it leaves at once";
  if (told_.insert(line).second) say(line);
  return true;
}

bool WorkerRun::interrupted() const { return interrupt_seen.load(); }

}  // namespace phasescope::app
