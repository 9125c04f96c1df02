#pragma once

namespace phasescope::app {

// The program: no verb, `view`, or the name of no verb opens the window; every other verb runs
// without a display. Returns the exit status: 0 done, 1 a check or verdict failed, or the model has
// no such thing, 2 bad usage or input, 3 no such device or host, 4 the worker died, 5 out of
// memory, 130 cancelled.
int run_program(int argc, char** argv);

}  // namespace phasescope::app
