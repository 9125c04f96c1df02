// Runs one job, as phasescope-worker does with --job: the process that the tests of jobs kill.
#include <cstring>
#include <iostream>

#include "training/jobs/job.h"
#include "training/jobs/stop_signal.h"

int main(int count, char** words) {
  if (count != 3 || std::strcmp(words[1], phasescope::training::kJobArgument) != 0) {
    std::cerr << "usage: training_job_runner --job DIR\n";
    return 2;
  }
  phasescope::training::heed_stop_signals();
  return phasescope::training::run_job(words[2]);
}
