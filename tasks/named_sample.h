#pragma once
// "addition:7": a sample of a task as an input of anything that reads a text.
#include <string>

#include "tasks/task.h"

namespace phasescope::tasks {

struct NamedSample {
  const Task* task = nullptr;
  std::uint64_t seed = 0;
  Sample sample;
};

// The sample named "TASK", "TASK:SEED" or "TASK:SEED:LENGTH" ("addition:7:3,4"), with seed 0 and
// shown_length() where they are left out. Throws Error "bad_usage".
NamedSample named_sample(const std::string& words);

// 8, or the nearest length that the task has.
Ids shown_length(const Task& task);
// "12" or "3,4". Throws Error "bad_usage" that names `option`.
Ids length_of_words(const std::string& words, const std::string& option);
// Task::check_length() of what was given by an option, or a request's field, which the error names.
void check_given_length(const Task& task, const Ids& length, const std::string& option);

}  // namespace phasescope::tasks
