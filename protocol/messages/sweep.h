#pragma once
// Sweeps: many trainings, and what came of them.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/json_form.h"
#include "protocol/messages/common.h"
#include "protocol/messages/eval.h"

namespace phasescope::protocol {

// What the jobs of a sweep have come to so far: a SweepResult.
struct SweepRequest {
  static constexpr const char* method = "jobs.sweep";
  static constexpr const char* verb = "";
  json cells;
  template <class V>
  void fields(V& v) {
    v("cells", cells,
      About{.help = "a list of {\"dir\", \"group\"}: the jobs' folders, and what those that differ "
                    "in their seeds alone have in common; evals stand in DIR/eval; with \"config\" "
                    "(and \"eval\") a folder whose job was asked otherwise is refused"});
  }
};

inline constexpr About kCellsAbout{
    .help = "a list of {\"dir\", \"config\"}: a job's folder and its run configuration"};

// The jobs of a sweep as an array of Slurm's: a SlurmResult. With `submit` the folders of those
// that are not done are made and handed to sbatch, unless an array of this sweep is in the queue.
struct SlurmRequest {
  static constexpr const char* method = "jobs.slurm";
  static constexpr const char* verb = "";
  std::string dir;
  json cells, eval;
  std::int64_t at_once = 1;
  std::vector<std::string> options;
  bool submit = false;
  template <class V>
  void fields(V& v) {
    v("dir", dir, About{.help = "the sweep's folder, which keeps the script and the number"});
    v("cells", cells, kCellsAbout);
    v("eval", eval,
      About{.help = "of each trained model, as a sweep's file has it (default: none)"});
    v("at_once", at_once, About{.help = "elements at once", .low = 1, .high = 1024});
    v("options", options, About{.help = "of sbatch, e.g. --partition=short", .repeats = true});
    v("submit", submit, About{.help = "hand what is not done to sbatch"});
  }
};

// Brings the folders of a sweep's jobs and a file of what such jobs came to together: a KeptResult.
struct KeepRequest {
  static constexpr const char* method = "jobs.keep";
  static constexpr const char* verb = "";
  std::string file;
  json cells, eval;
  template <class V>
  void fields(V& v) {
    v("file", file, About{.help = "a .jsonl file, a line for each job that is done"});
    v("cells", cells, kCellsAbout);
    v("eval", eval, About{.help = "of each trained model (default: none)"});
  }
};

// restored: names of the folders that were made of the file; others: of those that it has with
// another configuration, and that are trained anew.
struct KeptResult {
  std::vector<std::string> restored, others;
  std::int64_t kept = 0;
  template <class V>
  void fields(V& v) {
    v("restored", restored), v("others", others), v("kept", kept);
  }
};

// An element that is in the queue; its number is the cell's.
struct SlurmElement {
  std::int64_t cell = 0;
  std::string state;
  template <class V>
  void fields(V& v) {
    v("cell", cell), v("state", state);
  }
};

struct SlurmResult {
  std::string id;  // empty where no array was submitted
  std::vector<SlurmElement> queue;
  template <class V>
  void fields(V& v) {
    v("id", id), v("queue", queue);
  }
};

// One training. state: "new" where it has not begun, else as JobStatus has it.
struct SweepCell {
  std::string dir, group, state, message;
  std::int64_t step = 0, steps = 0;
  std::optional<double> loss, validation_bits, validation_right;
  std::string evaluated;  // the state of its eval; empty where there is none
  // Where cells train on a task: the blind guesser's loss, and the first validation below it.
  std::optional<double> blind_bits, blind_right, below_blind_seconds;
  std::optional<std::int64_t> below_blind_step;
  double seconds = 0;  // spent in steps
  template <class V>
  void fields(V& v) {
    v("dir", dir), v("group", group), v("state", state), v("message", message);
    v("step", step), v("steps", steps), v("loss", loss, About{.unit = "nats"});
    v("validation_bits", validation_bits, About{.title = "validation", .unit = "bits"});
    v("validation_right", validation_right, About{.title = "answers right"});
    v("evaluated", evaluated, About{.title = "eval"});
    v("blind_bits", blind_bits, About{.title = "blind guesser", .unit = "bits"});
    v("blind_right", blind_right, About{.title = "blind guesser right"});
    v("below_blind_step", below_blind_step, About{.title = "below it from step"});
    v("below_blind_seconds", below_blind_seconds, About{.title = "below it after", .unit = "s"});
    v("seconds", seconds, About{.title = "time", .unit = "s"});
  }
};

// `eval`: a row for each group and length, its mean over the seeds that have been evaluated;
// `model` is the group. Of one seed the interval is that of its samples. Its differences are paired
// by seed.
struct SweepResult {
  std::vector<SweepCell> cells;
  EvalResult eval;
  template <class V>
  void fields(V& v) {
    v("cells", cells), v("eval", eval);
  }
};

}  // namespace phasescope::protocol
