// Questions about positions: what heads want, read and need, and the models whose heads are known.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

std::vector<Handler> questions_handlers();

}  // namespace phasescope::worker
