#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "training/run_config.h"
#include "training/trainer.h"

namespace phasescope::training {

// What a whole training takes, reckoned from one step.
struct Needs {
  double step_seconds = 0, seconds = 0;  // without validations and saves; of the longest batch
  std::int64_t memory_bytes = 0;         // the most that this process has had so far
  std::int64_t checkpoint_bytes = 0;
  std::int64_t checkpoints = 0;  // at once, with one that is being written
  std::int64_t steps = 0;

  std::int64_t disk_bytes() const { return checkpoints * checkpoint_bytes; }
};
Needs needs_of(const RunConfig& config, const StepCost& cost);

// "a step takes 0.081 s, 6000 steps 8 min; ...".
std::string words_of(const Needs& needs);

// A sentence where the disk of `dir` has less room than the checkpoints take; empty otherwise.
std::string lacking_room(const Needs& needs, const std::filesystem::path& dir);

}  // namespace phasescope::training
