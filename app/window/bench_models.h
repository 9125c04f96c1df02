#pragma once
// Models that `bench window` makes up: 32 layers of 32 heads that read 4,096 tokens, and a worker
// that answers about them in the time and the order of a real one.
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "app/window/worker_link.h"

namespace phasescope::app {

// A thread that answers one request after the other, each after as long as the work would take; a
// cancelled one ends at the next look. What it does not make up fails at once.
class BenchWorker : public WorkerLink {
 public:
  BenchWorker();
  ~BenchWorker() override;
  void start() override {}
  void restart() override {}
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override;
  void cancel(protocol::RequestId id) override;
  std::size_t drain() override;
  protocol::WorkerState state() const override { return protocol::WorkerState::ready; }
  std::optional<protocol::DeathNotice> death() const override { return std::nullopt; }
  std::string description() const override { return "made-up models"; }
  void set_wake(std::function<void()>) override {}
  // Answers to this method that drain() has handed on.
  int answers(const std::string& method) const;

 private:
  struct Request {
    protocol::RequestId id = 0;
    std::string method;
    nlohmann::json params;
    protocol::Callbacks callbacks;
  };
  void work();
  bool rest(std::unique_lock<std::mutex>& lock, double seconds);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> requests_;
  std::deque<std::function<void()>> ended_;  // callbacks for drain()
  std::map<std::string, int> answers_;       // by method; drain()'s thread alone
  protocol::RequestId last_id_ = 0, running_ = 0;
  bool stop_running_ = false, leaving_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace phasescope::app
