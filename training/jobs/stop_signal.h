#pragma once

namespace phasescope::training {

// From now on SIGTERM and SIGINT ask the job to save and leave, once; a second one ends the
// process.
void heed_stop_signals();

// The one that asked; 0 for none.
int stop_signal();

}  // namespace phasescope::training
