// bench.kernels, bench.step, bench.load: speed, as medians of interleaved runs in this process.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

std::vector<Handler> bench_handlers();

}  // namespace phasescope::worker
