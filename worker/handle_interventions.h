// Request methods about what is changed in a model.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

std::vector<Handler> interventions_handlers();

}  // namespace phasescope::worker
