// Extrapolation tasks on models that are open already.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// The same as a background job: jobs.start with "kind": "eval".
std::vector<Handler> eval_handlers();

}  // namespace phasescope::worker
