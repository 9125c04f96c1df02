#pragma once

#include <memory>
#include <optional>

#include "protocol/client.h"

namespace phasescope::app {

// What the window needs of a worker. The real one is a WorkerClient; tests and the benchmark give
// one of their own.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void start() = 0;
  virtual void restart() = 0;
  virtual protocol::RequestId submit(const std::string& method, nlohmann::json params,
                                     protocol::Callbacks callbacks, const std::string& tag) = 0;
  virtual void cancel(protocol::RequestId id) = 0;
  virtual std::size_t drain() = 0;
  // Sends what was submitted; once at the end of a frame, so that of what one frame asks the urgent
  // goes first. A link that sends at once has nothing to do here.
  virtual void flush() {}
  virtual protocol::WorkerState state() const = 0;
  virtual std::optional<protocol::DeathNotice> death() const = 0;
  // "cpu, version 0.1.0"; empty before the worker is ready.
  virtual std::string description() const = 0;
  virtual void set_wake(std::function<void()> wake) = 0;
  // Why there is no worker yet and answers are recorded ones, in a sentence; empty otherwise.
  virtual std::string recorded() const { return ""; }
  // Whether answers of every size are read in the frame in which they come. A window reads large
  // ones beside its drawing; a test that counts frames does not wait for that.
  virtual bool reads_at_once() const { return false; }
};

// To a worker of its own; what is urgent overtakes the rest (urgent_link.h).
std::unique_ptr<WorkerLink> link_to(protocol::WorkerCommand command);

}  // namespace phasescope::app
