#include "training/jobs/job_reporter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <thread>

#include "formats/error.h"

namespace phasescope::training {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStatusEvery{1000};
constexpr std::chrono::milliseconds kPausePoll{100};

// Before every line, and the file that it goes to beside standard error.
std::string line_prefix;
std::FILE* second_log = nullptr;

// Every step has a line; a file that was cut off lacks some for good.
std::int64_t steps_lacking(const std::filesystem::path& metrics, std::int64_t steps_done) {
  const auto points = read_metrics(metrics);
  return steps_done - std::ranges::count_if(points, [steps_done](const auto& point) {
           return point.step <= steps_done;
         });
}

}  // namespace

void log_as(const std::string& name, const std::filesystem::path& log) {
  line_prefix = name + ": ";
  if (!log.empty()) second_log = std::fopen(log.c_str(), "ae");
}

void log_line(const std::string& text) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &parts);
  std::fprintf(stderr, "%s %s%s\n", stamp, line_prefix.c_str(), text.c_str());
  if (second_log == nullptr) return;
  std::fprintf(second_log, "%s %s\n", stamp, text.c_str());
  std::fflush(second_log);
}

JobReporter::JobReporter(formats::FileSystem& files, std::filesystem::path dir, Writes writes)
    : files_(files), dir_(std::move(dir)), writes_(writes) {
  status_.dir = std::filesystem::absolute(dir_).string();
  status_.name = std::filesystem::absolute(dir_).filename().string();
  status_.kind = "train";
  status_.state = "running";
  status_.pid = getpid();
  status_.steps = 100;
}

template <class Function>
void JobReporter::guarded(const std::string& what, Function&& function) {
  if (writes_ == Writes::nothing) return;
  try {
    function();
    failed_.erase(what);
  } catch (const formats::Error& error) {
    if (failed_.insert(what).second) log_line("warning: " + what + ": " + error.full_text());
  }
}

void JobReporter::set_kernel(const std::string& kernel) {
  if (kernel == status_.kernel) return;
  status_.kernel = kernel;
  log_line("attention: " + kernel);
}

void JobReporter::set_state(const std::string& state, const std::string& message) {
  status_.state = state;
  status_.message = message.empty() ? warning_ : message;
  if (!message.empty()) log_line(state + ": " + message);
  write(true);
}

void JobReporter::fail(const std::string& code, const std::string& message) {
  status_.code = code;
  set_state("failed", message);
}

void JobReporter::begin_after(std::int64_t steps_done, double seconds) {
  status_.step = steps_done;
  status_.seconds = last_time_ = seconds;
  if (writes_ == Writes::all && steps_done > 0) {
    const std::int64_t lacking = steps_lacking(dir_ / job_file::metrics, steps_done);
    if (lacking > 0) {
      warn("metrics.jsonl lacks " + std::to_string(lacking) + " of the " +
           std::to_string(steps_done) + " steps so far; the others are kept");
    }
  }
  metrics_ = std::make_unique<MetricsLog>(files_, dir_ / job_file::metrics, steps_done);
  sync_metrics();
  copies_.reset();
  guarded("copies of metrics.jsonl cannot be written",
          [&] { copies_ = std::make_unique<MetricsCopies>(files_, dir_, steps_done, forms_); });
}

void JobReporter::point(const protocol::MetricPoint& point) {
  const double took = point.time - last_time_;
  step_seconds_ = step_seconds_ == 0 ? took : 0.95 * step_seconds_ + 0.05 * took;
  last_time_ = point.time;
  status_.step = point.step;
  status_.tokens = point.tokens;
  status_.seconds = point.time;
  status_.seconds_left = step_seconds_ * static_cast<double>(status_.steps - point.step);
  status_.last = point;
  guarded("metrics.jsonl cannot be written", [&] {
    if (metrics_) metrics_->append(point);
  });
  guarded("copies of metrics.jsonl cannot be written", [&] {
    if (copies_) copies_->append(point);
  });
  write(false);
}

void JobReporter::fraction(double done, std::string_view text) {
  if (status_.kind == "train") return;  // its progress is its steps
  status_.step = static_cast<std::int64_t>(done * static_cast<double>(status_.steps));
  status_.message = text;
  write(false);
}

void JobReporter::warn(const std::string& text) {
  log_line("warning: " + text);
  status_.message = warning_ = text;
  write(true);
}

void JobReporter::sync_metrics() {
  guarded("metrics.jsonl cannot be synced", [&] {
    if (metrics_) metrics_->sync();
  });
  guarded("copies of metrics.jsonl cannot be synced", [&] {
    if (copies_) copies_->sync();
  });
}

void JobReporter::write(bool at_once) {
  const auto now = steady_clock::now();
  if (!at_once && now - last_write_ < kStatusEvery) return;
  last_write_ = now;
  guarded("status.json cannot be written", [&] { write_status(files_, dir_, status_); });
}

void JobControl::look_up() {
  const auto now = steady_clock::now();
  if (now - looked_up_ < kPausePoll) return;
  looked_up_ = now;
  obey([] {});
}

void JobControl::wait_while_paused() {
  reporter_.set_state("paused");
  while (!stop_signal() && read_request(dir_) == JobRequest::pause) {
    std::this_thread::sleep_for(kPausePoll);
  }
  if (!cancel_wanted()) reporter_.set_state("running");
}

}  // namespace phasescope::training
