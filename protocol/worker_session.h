// One life of a worker: its process, its channel, and the thread that receives. Used by client.cpp.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/channel.h"
#include "protocol/client.h"
#include "protocol/outbox.h"
#include "protocol/spawn.h"
#include "protocol/stderr_tail.h"

namespace phasescope::protocol {

// Called from the session's own thread; `ended` comes last, exactly once.
struct SessionEvents {
  std::function<void(const Hello&)> ready;
  std::function<void(Frame)> frame;
  std::function<void(DeathNotice)> ended;
};

class WorkerSession {
 public:
  // Starts the program in the new thread: a worker asks to be ended with the thread that started
  // it.
  WorkerSession(const ClientOptions& options, SessionEvents events);
  ~WorkerSession();
  WorkerSession(const WorkerSession&) = delete;
  WorkerSession& operator=(const WorkerSession&) = delete;

  // Never blocks; what is posted before the worker is ready waits for it.
  void post(Frame frame);
  // Ends the worker. Returns at once; `ended` says when it is gone.
  void stop();
  bool finished() const { return finished_; }
  std::vector<std::string> stderr_tail() const;
  int process_id() const { return process_id_; }

 private:
  void run();
  void connect_and_converse(ChildProcess& child);
  void converse();
  void connect(ChildProcess& child);
  void deliver(Frame frame);
  void refuse(const Frame& frame, const std::string& reason);
  ProcessEnd end_process(ChildProcess& child) const;
  DeathNotice notice(const ProcessEnd& end) const;
  std::string death_message(const ProcessEnd& end) const;

  ClientOptions options_;
  SessionEvents events_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> finished_{false};
  std::atomic<int> process_id_{0};

  mutable std::mutex mutex_;  // the four below, which other threads look at
  std::unique_ptr<StderrTail> stderr_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<Outbox> outbox_;
  std::vector<Frame> early_;

  // The session's thread alone uses what follows.
  bool ready_ = false;
  bool closed_by_worker_ = false;
  std::string reason_;
  std::optional<ErrorInfo> last_words_;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace phasescope::protocol
