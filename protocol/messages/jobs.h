#pragma once
// Jobs: their state and curves.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"

namespace phasescope::protocol {

struct MetricPoint {
  int64_t step = 0, tokens = 0;
  double loss = 0, lr = 0, time = 0;
  std::optional<double> validation_bits, gradient_norm, length;
  template <class V>
  void fields(V& v) {
    v("step", step), v("tokens", tokens), v("loss", loss), v("lr", lr), v("time", time);
    v("validation_bits", validation_bits), v("gradient_norm", gradient_norm);
    v("length", length);
  }
};

// state: queued, running, paused, done, failed, cancelled; "died" is shown where a folder says
// running and nobody holds its lock.
struct JobStatus {
  std::string dir, name, kind, state, message;
  int64_t pid = 0, step = 0, steps = 0, tokens = 0;
  double seconds = 0, seconds_left = 0;
  std::string kernel;  // what has run a training's attention since it was last started or resumed
  std::optional<MetricPoint> last;
  std::vector<MetricPoint> curve;  // jobs.show, thinned to at most 1000 points
  std::vector<std::string> checkpoints;
  json config = json::object();
  template <class V>
  void fields(V& v) {
    v("dir", dir), v("name", name), v("kind", kind), v("state", state), v("message", message);
    v("pid", pid), v("step", step), v("steps", steps), v("tokens", tokens);
    v("seconds", seconds), v("seconds_left", seconds_left), v("kernel", kernel), v("last", last);
    v("curve", curve), v("checkpoints", checkpoints), v("config", config);
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
