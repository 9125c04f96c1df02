#include "app/window/host_link.h"

#include <utility>

namespace phasescope::app {

HostLink::HostLink(const std::string& host, Make make)
    : make_(std::move(make)), link_(make_(host)) {}

void HostLink::go_to(const std::string& host) {
  std::shared_ptr<WorkerLink> before = std::move(link_);
  before->set_wake({});
  // A worker that does not end by itself is waited for before it is killed.
  if (ending_.valid()) ending_.wait();
  ending_ =
      std::async(std::launch::async, [before = std::move(before)]() mutable { before.reset(); });
  link_ = make_(host);
  if (wake_) link_->set_wake(wake_);
  if (started_) link_->start();
}

void HostLink::start() {
  started_ = true;
  link_->start();
}

protocol::RequestId HostLink::submit(const std::string& method, nlohmann::json params,
                                     protocol::Callbacks callbacks, const std::string& tag) {
  return link_->submit(method, std::move(params), std::move(callbacks), tag);
}

void HostLink::set_wake(std::function<void()> wake) {
  wake_ = wake;
  link_->set_wake(std::move(wake));
}

}  // namespace phasescope::app
