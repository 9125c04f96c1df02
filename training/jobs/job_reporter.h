#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "formats/file_system.h"
#include "protocol/messages/jobs.h"
#include "protocol/progress.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_copies.h"
#include "training/jobs/metrics_log.h"
#include "training/jobs/stop_signal.h"

namespace phasescope::training {

// A line of log.txt, with the time: standard error, which a started job has there.
void log_line(const std::string& text);
// For a process that a launcher started, whose standard error is not log.txt: its lines begin with
// `name`, and go to `log` too where it is not empty.
void log_as(const std::string& name, const std::filesystem::path& log);

// What a running job tells its folder: status.json at every change of state and otherwise about
// once a second, metrics.jsonl at every step. A disk that refuses does not end the job: each kind
// of failure is logged once, and lines of metrics.jsonl are written as soon as there is room again.
class JobReporter {
 public:
  enum class Writes { all, nothing };  // nothing: of a rank that only logs
  // Reports a training, until set_kind says otherwise; other kinds count progress in hundredths.
  JobReporter(formats::FileSystem& files, std::filesystem::path dir, Writes writes = Writes::all);

  void set_kind(const std::string& kind) { status_.kind = kind; }
  void set_steps(std::int64_t steps) { status_.steps = steps; }
  // What ran attention; said in the log too, when it changes.
  void set_kernel(const std::string& kernel);
  void set_state(const std::string& state, const std::string& message = {});
  // The same of a job that ends by an error, whose code says which exit status is meant.
  void fail(const std::string& code, const std::string& message);
  // What the blind guesser gets of the validation samples.
  void set_blind(double bits, double right) {
    status_.blind_bits = bits, status_.blind_right = right;
  }
  // In which other forms the points of metrics.jsonl are written; before begin_after().
  void write_too(const CopyForms& forms) { forms_ = forms; }
  // The steps done before, and the seconds they took: metrics.jsonl goes on from there, without the
  // lines after; lines that it lacks before are warned of.
  void begin_after(std::int64_t steps_done, double seconds);
  void point(const protocol::MetricPoint& point);
  void fraction(double done, std::string_view text);
  void warn(const std::string& text);
  void sync_metrics();

  const std::string& state() const { return status_.state; }

 private:
  void write(bool at_once);
  template <class Function>
  void guarded(const std::string& what, Function&& function);

  formats::FileSystem& files_;
  std::filesystem::path dir_;
  Writes writes_;
  protocol::JobStatus status_;
  std::unique_ptr<MetricsLog> metrics_;
  CopyForms forms_;
  std::unique_ptr<MetricsCopies> copies_;
  std::set<std::string> failed_;
  std::string warning_;  // the last one, which a state without a message leaves in place
  std::chrono::steady_clock::time_point last_write_{};
  double step_seconds_ = 0;  // smoothed
  double last_time_ = 0;
};

// Thrown when control.json says cancel, or a signal asks the job to leave.
struct JobCancelled {
  int signal = 0;  // 0: control.json
};

// Obeys control.json. `before_pause` runs when a pause begins (a checkpoint is saved).
class JobControl {
 public:
  JobControl(std::filesystem::path dir, JobReporter& reporter)
      : dir_(std::move(dir)), reporter_(reporter) {}

  // Returns when the job may go on; throws JobCancelled.
  template <class Function>
  void obey(Function&& before_pause) {
    if (read_request(dir_) == JobRequest::pause) {
      before_pause();
      wait_while_paused();
    }
    if (cancel_wanted()) throw JobCancelled{stop_signal()};
  }
  // The same, ten times a second at most, for work in small pieces that has nothing to save.
  void look_up();
  // What control.json says now, without regard to signals.
  JobRequest asked() const { return read_request(dir_); }
  // Waits while the job is paused, and says whether it is to end.
  bool cancelled_after_pause() {
    if (read_request(dir_) == JobRequest::pause) wait_while_paused();
    return cancel_wanted();
  }

 private:
  bool cancel_wanted() const {
    return stop_signal() != 0 || read_request(dir_) == JobRequest::cancel;
  }
  void wait_while_paused();

  std::filesystem::path dir_;
  JobReporter& reporter_;
  std::chrono::steady_clock::time_point looked_up_{};
};

// A job's folder as the Progress of what it runs, which is paused wherever it asks whether it is
// cancelled: a model's forward pass does so at every layer.
class JobProgress final : public protocol::Progress {
 public:
  JobProgress(JobReporter& reporter, JobControl& control)
      : reporter_(reporter), control_(control) {}
  void progress(double fraction, std::string_view text) override {
    reporter_.fraction(fraction, text);
  }
  bool cancelled() const override { return control_.cancelled_after_pause(); }

 private:
  JobReporter& reporter_;
  JobControl& control_;
};

}  // namespace phasescope::training
