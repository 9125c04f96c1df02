#pragma once
// The window before there is a worker: the first session's questions are answered from a recording,
// all others wait. When the worker is there, everything goes to it.
#include <map>
#include <vector>

#include "app/window/recording.h"
#include "app/window/worker_build.h"
#include "app/window/worker_link.h"

namespace phasescope::app {

class RecordedLink : public WorkerLink {
 public:
  RecordedLink(std::shared_ptr<const Recording> recording, std::unique_ptr<WorkerLink> live,
               WorkerWatch watch)
      : recording_(std::move(recording)), live_(std::move(live)), watch_(std::move(watch)) {}

  void start() override;
  void restart() override;
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override;
  void cancel(protocol::RequestId id) override;
  std::size_t drain() override;
  void flush() override {
    if (is_live_) live_->flush();
  }
  protocol::WorkerState state() const override;
  std::optional<protocol::DeathNotice> death() const override;
  std::string description() const override;
  void set_wake(std::function<void()> wake) override;
  std::string recorded() const override;

 private:
  struct Held {
    protocol::RequestId id;
    std::string method;
    nlohmann::json params;
    protocol::Callbacks callbacks;
    std::string tag;
  };
  struct Answered {
    protocol::RequestId id;
    const protocol::Reply* reply;
    protocol::Callbacks callbacks;
  };
  void go_live();

  std::shared_ptr<const Recording> recording_;
  std::unique_ptr<WorkerLink> live_;
  WorkerWatch watch_;
  bool is_live_ = false, started_ = false;
  std::vector<Held> held_;
  std::vector<Answered> answered_;
  // Far from those that the worker's own client gives.
  protocol::RequestId last_id_ = protocol::RequestId{1} << 62;
  std::map<protocol::RequestId, protocol::RequestId> live_ids_;  // of what was held
};

// A link that keeps every answer about a model in a recording on its way to the window.
std::unique_ptr<WorkerLink> recording_link(std::unique_ptr<WorkerLink> live,
                                           std::shared_ptr<Recording> recording);

}  // namespace phasescope::app
