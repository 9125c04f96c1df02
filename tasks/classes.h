#pragma once

#include "tasks/task.h"

namespace phasescope::tasks {

// What the metric rows of tasks with one class a sample say of predicted classes: how many are
// right.
Json accuracy_of_classes(const std::vector<Sample>& samples, const Json& given);

}  // namespace phasescope::tasks
