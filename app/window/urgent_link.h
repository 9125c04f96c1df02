#pragma once
// A worker answers its requests in the order they came. Here only two of them are with it at a
// time, so that the map of a head that was clicked overtakes whatever waits; and what cannot be
// taken back is sent to an idle worker alone, so that a map waits for one such thing at most.
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "app/window/worker_link.h"

namespace phasescope::app {

class UrgentLink : public WorkerLink {
 public:
  explicit UrgentLink(std::unique_ptr<WorkerLink> worker) : worker_(std::move(worker)) {}

  // Somebody looks at the pixel that waits for this answer.
  static bool is_urgent(const std::string& method);
  // Takes minutes, and is the last of what waits.
  static bool is_long(const std::string& method);
  // Computing it once more gives the same and does no harm, so that it may be stopped for what is
  // urgent. Anything that is quick, starts something or opens a model is let be.
  static bool is_repeatable(const std::string& method);
  // A request is stopped for urgent ones so often, then it is left to end.
  static constexpr int kMostStops = 3;

  void start() override { worker_->start(); }
  void restart() override { worker_->restart(); }
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override;
  void cancel(protocol::RequestId id) override;
  std::size_t drain() override;
  void flush() override { send_waiting(); }
  protocol::WorkerState state() const override { return worker_->state(); }
  std::optional<protocol::DeathNotice> death() const override { return worker_->death(); }
  std::string description() const override { return worker_->description(); }
  void set_wake(std::function<void()> wake) override { worker_->set_wake(std::move(wake)); }
  std::string recorded() const override { return worker_->recorded(); }

 private:
  struct Request {
    protocol::RequestId id = 0;
    std::string method, tag;
    nlohmann::json params;
    protocol::Callbacks callbacks;
    int stops = 0;
    protocol::RequestId with_worker = 0;  // its id there
    bool taken_back = false;              // to be sent again once the worker has let go of it
  };
  void send(Request request);
  void send_waiting();
  void take_back_for_urgent();
  void on_result(protocol::RequestId id, protocol::Reply reply);
  void on_error(protocol::RequestId id, const protocol::ErrorInfo& error);
  void end_unsent(Request request);

  std::unique_ptr<WorkerLink> worker_;
  std::deque<Request> waiting_;                  // not sent yet, in the order they came
  std::map<protocol::RequestId, Request> sent_;  // by our own id
  std::vector<protocol::Callbacks> cancelled_;   // of requests that were never sent
  protocol::RequestId last_id_ = 0;
};

}  // namespace phasescope::app
