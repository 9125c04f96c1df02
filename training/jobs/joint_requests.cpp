#include "training/jobs/joint_requests.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <iterator>
#include <thread>
#include <vector>

#include "training/jobs/stop_signal.h"

namespace phasescope::training {
namespace {

constexpr std::chrono::milliseconds kAskEvery{100};

// The end of a scope, on whichever way it is left.
class SetAtEnd {
 public:
  explicit SetAtEnd(std::atomic<bool>& flag) : flag_(flag) {}
  ~SetAtEnd() { flag_ = true; }
  SetAtEnd(const SetAtEnd&) = delete;
  SetAtEnd& operator=(const SetAtEnd&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

JointRequests::Asked JointRequests::asked_of_all(bool working) const {
  const JobRequest asked = ranks_.first() ? control_.asked() : JobRequest::none;
  const double own[] = {static_cast<double>(stop_signal()), asked == JobRequest::cancel ? 1.0 : 0.0,
                        asked == JobRequest::pause ? 1.0 : 0.0, working ? 1.0 : 0.0};
  const std::vector<double> all = ranks_.gathered(own);
  Asked joint;
  for (std::size_t n = 0; n < all.size(); n += std::size(own)) {
    joint.signal = std::max(joint.signal, static_cast<int>(all[n]));
    joint.cancel = joint.cancel || all[n + 1] > 0;
    joint.pause = joint.pause || all[n + 2] > 0;
    joint.working = joint.working || all[n + 3] > 0;
  }
  if (joint.signal > 0 || joint.cancel) throw JobCancelled{joint.signal};
  return joint;
}

void JointRequests::obey(const std::function<void()>& before_pause) {
  for (bool paused = false;; std::this_thread::sleep_for(kAskEvery)) {
    if (!asked_of_all(false).pause) {
      if (paused) reporter_.set_state("running");
      return;
    }
    if (!paused) before_pause(), reporter_.set_state("paused");
    paused = true;
  }
}

void JointRequests::obey_during(
    const std::function<void(const std::function<void()>& look_up)>& work) {
  obey([] {});  // what is asked already is not waited for
  std::atomic<bool> paused = false, leaving = false;
  const auto look_up = [&] {
    while (paused && !leaving) std::this_thread::sleep_for(kAskEvery);
    if (leaving) throw JobCancelled{};
  };
  std::future<void> done = std::async(std::launch::async, [&] { work(look_up); });
  const SetAtEnd left(leaving);  // before the end of `done`, which waits for the work
  for (bool working = true;;) {
    if (working && done.wait_for(kAskEvery) == std::future_status::ready) {
      done.get();
      working = false;
    } else if (!working && paused) {
      std::this_thread::sleep_for(kAskEvery);
    }
    const Asked joint = asked_of_all(working);
    if (joint.pause != paused) reporter_.set_state(joint.pause ? "paused" : "running");
    paused = joint.pause;
    if (!joint.working && !joint.pause) return;
  }
}

}  // namespace phasescope::training
