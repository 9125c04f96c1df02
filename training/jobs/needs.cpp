#include "training/jobs/needs.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <system_error>

namespace phasescope::training {
namespace {

std::string number(double value, const char* unit) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", value, unit);
  return text.data();
}

std::string duration(double seconds) {
  if (seconds < 120) return number(seconds, "s");
  if (seconds < 7200) return number(seconds / 60, "min");
  return number(seconds / 3600, "h");
}

std::string in_megabytes(std::int64_t bytes) {
  return number(static_cast<double>(bytes) / 1e6, "MB");
}

}  // namespace

Needs needs_of(const RunConfig& config, const StepCost& cost) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto kept = std::max<std::int64_t>(config.train.keep_checkpoints, 2) +
                    static_cast<std::int64_t>(config.train.keep_steps.size()) +
                    (config.train.keep_best == "off" ? 0 : 1);
  return {.step_seconds = cost.seconds,
          .seconds = cost.seconds * static_cast<double>(config.train.steps),
          .memory_bytes = std::int64_t{used.ru_maxrss} * 1024,
          .checkpoint_bytes = cost.checkpoint_bytes,
          .checkpoints = kept + 1,
          .steps = config.train.steps};
}

std::string words_of(const Needs& needs) {
  return "a step takes " + duration(needs.step_seconds) + ", " + std::to_string(needs.steps) +
         " steps " + duration(needs.seconds) + " without validations; " +
         in_megabytes(needs.memory_bytes) + " of memory; checkpoints of " +
         in_megabytes(needs.checkpoint_bytes) + ", " + std::to_string(needs.checkpoints) +
         " at once at most, " + in_megabytes(needs.disk_bytes());
}

std::string lacking_room(const Needs& needs, const std::filesystem::path& dir) {
  std::error_code error;
  const auto space = std::filesystem::space(dir, error);
  if (error || space.available >= static_cast<std::uintmax_t>(needs.disk_bytes())) return "";
  return "the disk has " + in_megabytes(static_cast<std::int64_t>(space.available)) +
         " left, and the checkpoints take " + in_megabytes(needs.disk_bytes());
}

}  // namespace phasescope::training
