#pragma once
// Jobs: their state and curves.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"

namespace phasescope::protocol {

inline constexpr About kJobAbout{.help = "the job's folder, or the name that jobs.list gives it"};

// Trainings and evals, running and ended: a JobsResult.
struct JobsRequest {
  static constexpr const char* method = "jobs.list";
  static constexpr const char* verb = "";
  std::string root;
  template <class V>
  void fields(V& v) {
    v("root", root, About{.help = "folder whose jobs are listed (default: the user's jobs)"});
  }
};

// One job with its curve: a JobStatus.
struct JobRequest {
  static constexpr const char* method = "jobs.show";
  static constexpr const char* verb = "";
  std::string dir;
  template <class V>
  void fields(V& v) {
    v("dir", dir, kJobAbout);
  }
};

// The fields of a run configuration, for a form: a ConfigForm.
struct FormRequest {
  static constexpr const char* method = "jobs.form";
  static constexpr const char* verb = "";
  json config;
  Assignments set;
  template <class V>
  void fields(V& v) {
    v("config", config,
      About{.help = "a run configuration or its path (default: none, all defaults)"});
    v("set", set, About{.help = "override of it, e.g. train.steps=100 (may be repeated)"});
  }
};

inline constexpr About kTrainsOnAbout{
    .help =
        "where models live and train: cpu or cuda[:i] (default: what CONFIG has as "
        "train.device, and otherwise cpu)",
    .needs = "config"};

// Starts or resumes a job as a process of its own: a JobStatus.
struct StartRequest {
  static constexpr const char* method = "jobs.start";
  static constexpr const char* verb = "";
  std::string kind = "train";
  std::string dir, name;
  json config;
  Assignments set;
  std::string device;
  bool resume = false, launched = false;
  template <class V>
  void fields(V& v) {
    v("kind", kind, About{.help = "what is started", .choices = "train|eval"});
    v("dir", dir, About{.help = "the job's folder (default: a new one in the user's jobs)"});
    v("name", name, About{.help = "of the new folder"});
    v("config", config,
      About{.help = "a run configuration or its path; of an eval its parameters, with its task"});
    v("set", set,
      About{.help = "override of the configuration, e.g. train.steps=100 (may be repeated)",
            .needs = "config"});
    v("device", device, kTrainsOnAbout);
    v("resume", resume,
      About{.help = "follow a live job, continue a dead one from its newest verified checkpoint"});
    v("launched", launched,
      About{.help = "of a training: its folder is made, and a launcher's processes run it"});
  }
};

// Pauses, resumes, cancels or removes a job: its JobStatus.
struct ControlRequest {
  static constexpr const char* method = "jobs.control";
  static constexpr const char* verb = "";
  std::string dir, action;
  template <class V>
  void fields(V& v) {
    v("dir", dir, kJobAbout);
    v("action", action, About{.help = "what it is told", .choices = "pause|resume|cancel|remove"});
  }
};

// The last lines of a job's log: {"dir", "log"}.
struct LogRequest {
  static constexpr const char* method = "jobs.log";
  static constexpr const char* verb = "";
  std::string dir;
  std::int64_t lines = 1000;
  template <class V>
  void fields(V& v) {
    v("dir", dir, kJobAbout);
    v("lines", lines, About{.help = "how many lines", .low = 1, .high = 1e6});
  }
};

// A field of a run configuration or an option of an encoding: what it is and what it is now.
struct ConfigField {
  std::string key, help;  // "train.steps"
  std::vector<std::string> choices;
  json value, fallback;
  std::optional<double> low, high;
  template <class V>
  void fields(V& v) {
    v("key", key), v("help", help), v("choices", choices), v("value", value);
    v("fallback", fallback), v("low", low), v("high", high);
  }
};

// problem: why a training would not start with it; empty where it would. parameters and
// tokens: of the model, and read in all steps.
struct ConfigForm {
  std::vector<ConfigField> fields_of;
  json config = json::object();  // with what was set
  std::string problem;
  std::int64_t parameters = 0, tokens = 0;
  template <class V>
  void fields(V& v) {
    v("fields", fields_of), v("config", config), v("problem", problem);
    v("parameters", parameters), v("tokens", tokens);
  }
};

struct MetricPoint {
  std::int64_t step = 0, tokens = 0;
  double loss = 0, lr = 0, time = 0;
  std::optional<double> validation_bits, validation_right, gradient_norm, length;
  // Head metrics of a probe text, with eval.probe_every: metric -> layer -> head.
  std::optional<std::map<std::string, std::vector<std::vector<double>>>> heads;
  template <class V>
  void fields(V& v) {
    v("step", step), v("tokens", tokens), v("loss", loss, About{.unit = "nats a token"});
    v("lr", lr, About{.title = "learning rate"}), v("time", time, About{.unit = "s"});
    v("validation_bits", validation_bits,
      About{.title = "validation loss", .unit = "bits a token"});
    v("validation_right", validation_right, About{.title = "validation answers right"});
    v("gradient_norm", gradient_norm, About{.title = "gradient's norm"});
    v("length", length, About{.unit = "tokens"});
    v("heads", heads, About{.help = "of the probe text, by layer and head"});
  }
};

// Whether a job of this state has a process, or is about to have one.
inline bool is_live(const std::string& state) {
  return state == "running" || state == "queued" || state == "paused";
}

// state: queued, running, paused, done, failed, cancelled; "died" is shown where a folder says
// running and nobody holds its lock.
struct JobStatus {
  std::string dir, name, kind, state, message;
  std::optional<std::string> code;  // of a failed one: the error's, as in ErrorInfo
  std::int64_t pid = 0, step = 0, steps = 0, tokens = 0;
  double seconds = 0, seconds_left = 0;
  std::string kernel;  // what has run a training's attention since it was last started or resumed
  // What guessing by length and place gets of the validation samples of a training on a task.
  std::optional<double> blind_bits, blind_right;
  std::optional<MetricPoint> last;
  std::vector<MetricPoint> curve;  // jobs.show, thinned to at most 1000 points
  std::int64_t curve_of = 0;       // points that the job has written
  std::vector<std::string> checkpoints;
  json config = json::object();
  json result;  // jobs.show of an eval that has ended: its EvalResult
  template <class V>
  void fields(V& v) {
    v("dir", dir), v("name", name), v("kind", kind), v("state", state), v("message", message);
    v("code", code, About{.title = "kind of the error"});
    v("pid", pid), v("step", step), v("steps", steps), v("tokens", tokens);
    v("seconds", seconds, About{.title = "time", .unit = "s"});
    v("seconds_left", seconds_left, About{.title = "time left", .unit = "s"});
    v("kernel", kernel, About{.title = "attention by"});
    v("blind_bits", blind_bits, About{.title = "blind guesser's loss", .unit = "bits"});
    v("blind_right", blind_right, About{.title = "blind guesser's answers right"});
    v("last", last);
    v("curve", curve), v("curve_of", curve_of);
    v("checkpoints", checkpoints), v("config", config), v("result", result);
  }
};

struct JobsResult {
  std::vector<JobStatus> jobs;
  template <class V>
  void fields(V& v) {
    v("jobs", jobs);
  }
};

}  // namespace phasescope::protocol
