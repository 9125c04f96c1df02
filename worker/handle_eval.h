// Extrapolation tasks on models that are open already.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// eval.list: {"tasks": [{"key", "title", "help", "source", "options": [...]}]}.
// eval {"task", "models", options of the task}: EvalResult. The same as a background job:
// jobs.start with "kind": "eval".
std::vector<Handler> eval_handlers();

}  // namespace phasescope::worker
