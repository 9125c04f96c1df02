// Runs one job, as phasescope-worker does with --job and --job-rank: the processes that the tests
// of jobs kill.
#include <cstring>
#include <iostream>

#include "training/jobs/job.h"
#include "training/jobs/stop_signal.h"

int main(int count, char** words) {
  using namespace phasescope::training;
  const bool rank = count == 3 && std::strcmp(words[1], kRankArgument) == 0;
  if (count != 3 || (!rank && std::strcmp(words[1], kJobArgument) != 0)) {
    std::cerr << "usage: training_job_runner --job|--job-rank DIR\n";
    return 2;
  }
  heed_stop_signals();
  return rank ? run_job_as_rank(words[2]) : run_job(words[2]);
}
