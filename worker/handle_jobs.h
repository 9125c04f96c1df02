// Methods about jobs: trainings and evals that run as processes of their own and outlive the
// worker.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// jobs.list gives the newest first, without curves; jobs.start, with "resume", leaves a live job
// alone and lets a dead one go on; jobs.control after "remove" gives the state that the job had.
std::vector<Handler> jobs_handlers();

}  // namespace phasescope::worker
