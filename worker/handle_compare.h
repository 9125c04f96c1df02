// The method that compares models, or texts.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// Without an input the text of a first session is read. compare takes two causal models, or two
// that see both ways.
std::vector<Handler> compare_handlers();

}  // namespace phasescope::worker
