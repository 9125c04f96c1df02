// Methods about jobs: trainings and evals that run as processes of their own and outlive the
// worker.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// jobs.list {"root"?}: JobsResult, newest first, without curves.
// jobs.show {"dir"}: JobStatus with its curve.
// jobs.start {"kind": "train"|"eval", "config", "set": ["a.b=c"], "dir"?, "name"?, "resume"?}:
//   JobStatus of the job as it then is. With "resume" a live job is left alone, a dead one goes on.
// jobs.control {"dir", "action": "pause"|"resume"|"cancel"|"remove"}: JobStatus; after "remove" the
//   one it had.
// jobs.log {"dir", "lines"?}: {"dir", "log"}.
std::vector<Handler> jobs_handlers();

}  // namespace phasescope::worker
