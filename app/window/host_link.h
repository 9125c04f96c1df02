#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>

#include "app/window/worker_link.h"

namespace phasescope::app {

// To a worker of this machine or of another one, whichever was chosen last.
class HostLink : public WorkerLink {
 public:
  // A link to a worker on that host; empty: on this machine.
  using Make = std::function<std::unique_ptr<WorkerLink>(const std::string& host)>;
  HostLink(const std::string& host, Make make);

  // Ends the worker, beside the window, and starts one there where one was started. What was asked
  // of it is not answered any more: whoever asked asks again.
  void go_to(const std::string& host);

  void start() override;
  void restart() override { link_->restart(); }
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override;
  void cancel(protocol::RequestId id) override { link_->cancel(id); }
  std::size_t drain() override { return link_->drain(); }
  void flush() override { link_->flush(); }
  protocol::WorkerState state() const override { return link_->state(); }
  std::optional<protocol::DeathNotice> death() const override { return link_->death(); }
  std::string description() const override { return link_->description(); }
  void set_wake(std::function<void()> wake) override;
  std::string recorded() const override { return link_->recorded(); }
  bool reads_at_once() const override { return link_->reads_at_once(); }

 private:
  Make make_;
  std::unique_ptr<WorkerLink> link_;
  std::function<void()> wake_;
  bool started_ = false;
  std::future<void> ending_;  // of the one before
};

}  // namespace phasescope::app
