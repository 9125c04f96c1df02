#pragma once
// The commands of claims, each run once and kept: what was measured is read again, what is missing
// is run, trainings as jobs that go on where they were.
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/verbs/verb.h"

namespace phasescope::app {

// What a command has come to; its fields are what is kept of it.
struct DeskRun {
  std::string command;    // the line that runs it again
  nlohmann::json result;  // null where there is none yet
  bool whole = false;     // nothing of it is left
  bool tried = false;     // it was run here, and refused where there is no result
  std::string problem;    // why there is no result, or not all of it
  double seconds = 0;     // over all times that it was run
  template <class V>
  void fields(V& v) {
    v("command", command), v("whole", whole), v("problem", problem), v("seconds", seconds);
    v("result", result);
  }
};

struct DeskRunOptions {
  std::filesystem::path folder;  // results/ and jobs/ are kept there
  bool run_missing = false;      // otherwise only what is there is read
  // No command is begun after it, and sweeps save and stop there.
  std::optional<std::chrono::steady_clock::time_point> until;
  // A folder of what was measured, on other days too, small enough to be kept with the sources:
  // SWEEP.jsonl of each sweep and commands.jsonl of all else. Empty: none.
  std::filesystem::path kept = {};
  // Only what stands in `kept` counts, and nothing that this machine has in `folder`, half done or
  // whole: so it says the same everywhere. Nothing is run or added then.
  bool kept_alone = false;
  // What is kept of a command's result; by default all.
  std::function<nlohmann::json(const std::vector<std::string>&, const nlohmann::json&)> needed = {};
};

// Sweeps in the order in which they are run: first what tells most for its time.
void order_sweeps(std::vector<std::vector<std::string>>& sweeps);

class DeskRuns {
 public:
  // Throws Error "internal" where a folder to read what is kept in cannot be made.
  DeskRuns(Run& run, DeskRunOptions options);

  // The run of a command line's words without the program; a sweep's jobs stand in the folder. What
  // the command refuses is a problem and no exception. Throws RequestError "cancelled".
  const DeskRun& of(const std::vector<std::string>& words);
  // Runs these sweeps in turn, the first seed of each, then the second, and so on, as far as the
  // time goes: of() then finds as many seeds of all. Does nothing where nothing is to be run. What
  // goes wrong is said, and of() finds it again.
  void run_by_seeds(const std::vector<std::vector<std::string>>& sweeps);
  // A command as the line that runs it again.
  std::string line_of(const std::vector<std::string>& words) const;

 private:
  std::vector<std::string> whole_command(std::vector<std::string> words,
                                         const std::filesystem::path& folder) const;
  std::filesystem::path kept_at(const std::vector<std::string>& words) const;
  DeskRun kept(const std::filesystem::path& file) const;
  void run_now(const std::vector<std::string>& words, DeskRun& known) const;
  void run_first_seeds(const std::vector<std::string>& words, std::size_t seeds);
  bool may_run() const;
  std::string file_of_kept() const;
  nlohmann::json key_of(const std::vector<std::string>& words) const;
  DeskRun kept_elsewhere(const std::vector<std::string>& words) const;
  void keep_elsewhere(const std::vector<std::string>& words, const DeskRun& known) const;

  Run& run_;
  DeskRunOptions options_;
  // Where jobs are read: options_.folder, or one that goes with this object.
  std::shared_ptr<const std::filesystem::path> place_;
  std::map<std::vector<std::string>, DeskRun> done_;
  std::map<std::vector<std::string>, double> before_;  // seconds that run_by_seeds() has spent
};

}  // namespace phasescope::app
