// The methods that write a model: converted, or imported from attention computed elsewhere.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// Nothing is run. convert needs no memory for the whole model: tensors are read and written in
// turn.
std::vector<Handler> convert_handlers();

}  // namespace phasescope::worker
