#pragma once

namespace phasescope::app {

// The program: no verb, `view`, or the name of no verb opens the window; every other verb runs
// without a display. Returns the exit status of cli.md: 0 done, 1 a check or verdict failed, 2 bad
// usage or input, 3 no such device, 4 the worker died, 5 out of memory, 130 cancelled.
int run_program(int argc, char** argv);

}  // namespace phasescope::app
