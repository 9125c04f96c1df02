#pragma once
// What several ranks of one training are asked to do, so that all of them do it.
#include <functional>

#include "training/jobs/job_reporter.h"
#include "training/ranks/ranks.h"

namespace phasescope::training {

// What rank 0's control.json says, and a signal that any of the ranks was sent. All ranks call the
// same functions in the same order, as of Ranks.
class JointRequests {
 public:
  JointRequests(const Ranks& ranks, const JobControl& control, JobReporter& reporter)
      : ranks_(ranks), control_(control), reporter_(reporter) {}

  // Returns when the job may go on; throws JobCancelled, at every rank alike. `before_pause` runs
  // when a pause begins.
  void obey(const std::function<void()>& before_pause);

  // Runs `work` of this rank, and returns when that of every rank is done. Meanwhile the ranks ask
  // each other ten times a second, so that none is taken for lost, however long the others work.
  // `work` calls what it is given between its pieces: that waits while the job is paused, and
  // throws where this function does, which leaves by JobCancelled, by what `work` of this rank
  // throws, or by the error "worker_died" where another rank is gone.
  void obey_during(const std::function<void(const std::function<void()>& look_up)>& work);
  // The same of a rank that has nothing to do meanwhile.
  void obey_while_others_work() {
    obey_during([](const auto&) {});
  }

 private:
  struct Asked {
    int signal = 0;
    bool cancel = false, pause = false, working = false;
  };
  // Of all ranks; throws JobCancelled. `working`: whether this one is.
  Asked asked_of_all(bool working) const;

  const Ranks& ranks_;
  const JobControl& control_;
  JobReporter& reporter_;
};

}  // namespace phasescope::training
