#pragma once
// Duels: of two models, of two run configurations.
#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

std::vector<Handler> duel_handlers();

}  // namespace phasescope::worker
