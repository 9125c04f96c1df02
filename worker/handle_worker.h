// Methods about the worker itself.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// worker.info: worker_facts() of devices.h, with "device" and "process_id".
// worker.sleep {"seconds"}: does nothing for that long, with progress, can be cancelled.
std::vector<Handler> worker_handlers();

// For tests only, listed when the environment has PHASESCOPE_TEST_HANDLERS:
// worker.crash {"how"}: ends the process: "abort", "segv", "exit", "kill", or a fatal error:
// "fatal". worker.misbehave {"how"}: "print" to standard output, "stuck" (never looks at
// cancelled()), "memory" (asks for more than there is), "throw". worker.echo: the parameters and
// tensors as they came.
std::vector<Handler> test_handlers();

}  // namespace phasescope::worker
