#pragma once
// A sweep's file: a run configuration, and a grid of what differs from it.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace phasescope::app {

// One training of a sweep.
struct SweepJob {
  std::string name;   // its folder: "encoding-rope_train.seed-2"
  std::string group;  // what it has in common with those that differ in train.seed: "encoding rope"
  nlohmann::json config;
  std::size_t seed = 0;  // which of the grid's seeds it has, from 0
};

struct SweepPlan {
  std::vector<SweepJob> jobs;
  std::int64_t at_once = 1;
  nlohmann::json eval;  // of each trained model: task, lengths, trials, ...; null for none
};

// {"base": path of a run configuration, from the file's folder, or the configuration itself,
//         or in its place "runs": [{"name": "even_pairs", "base": ..., "set": {...}}, ...],
//         several that the grid is laid over, each a group of its own,
//  "set": {"train.steps": 1500}, of every job,
//  "grid": {"encoding": ["rope", {"key": "alibi"}], "train.seed": [1, 2, 3]}, every combination,
//          seed by seed,
//  "jobs": how many at once,
//  "eval": {"task": "copy", "lengths": [20, 40], "trials": 200}}
// Throws Error "bad_input" that names the key.
SweepPlan sweep_plan(const std::filesystem::path& file);

}  // namespace phasescope::app
