#pragma once
// Examples of a task as JSON lines: {"kind": "task"}, {"kind": "example"} with what was drawn and
// the rest, {"kind": "metric"} with predictions and what they score. The files made with the public
// code have this form, and `data` writes it.
#include <filesystem>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace phasescope::tasks {

struct FileCheck {
  std::int64_t examples = 0, metrics = 0;
  std::vector<std::string> differences;  // the first of each row: "line 4, target[2]: 1, not 0"
};

// Compares every example and every metric of a file with what the task makes of the same draw; what
// a row lacks is a difference too. Throws Error "bad_input" for a file that cannot be read, has no
// such rows or is about another task.
FileCheck check_file(const Task& task, const std::filesystem::path& path);

// The first place where `ours` has another value than `given`; empty where they agree. Members that
// `given` lacks or has as null are not compared; numbers agree to 1e-12 of their size.
std::string first_difference(const Json& ours, const Json& given, const std::string& place = "");

// Lines of the same form: the task, and `trials` samples of each length.
std::vector<Json> example_rows(const Task& task, const std::vector<Ids>& lengths,
                               std::int64_t trials, std::uint64_t seed);

}  // namespace phasescope::tasks
