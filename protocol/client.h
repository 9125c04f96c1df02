// The near end of a worker: starts it, sends requests, delivers what comes back, survives its
// death. Sections: how a worker is started; what is told about it; WorkerClient.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/error_info.h"
#include "protocol/frame.h"
#include "protocol/reply.h"
#include "protocol/tensor.h"

namespace phasescope::protocol {

// ---- How a worker is started ----------------------------------------------------------------

struct WorkerCommand {
  std::vector<std::string> argv;
  // Another program (ssh) carries the bytes: memory files cannot pass, everything is inline.
  bool relayed = false;
};

// phasescope-worker beside the running program; the environment's PHASESCOPE_WORKER, when set, is
// used instead. `arguments` are the worker's own (--device, --threads).
WorkerCommand local_worker(std::vector<std::string> arguments = {});
// ssh -T with the options of docs/protocol.md, running `phasescope worker` on the host.
WorkerCommand remote_worker(const std::string& host, std::vector<std::string> arguments = {});

struct ClientOptions {
  WorkerCommand command;
  std::chrono::milliseconds handshake_limit{120'000};
  FrameLimits frame_limits;
  TimeLimits time_limits;
};

// ---- What is told about it ------------------------------------------------------------------

enum class WorkerState { not_started, starting, ready, dead };

// How a worker ended. `error` is the sentence to show, and what every request it still owed gets.
struct DeathNotice {
  ErrorInfo error;                       // code "worker_died"
  std::optional<int> exit_status;        // when it left by itself
  std::optional<int> signal;             // when a signal ended it
  std::string how;                       // "killed by SIGKILL", "left with status 1", ...
  std::optional<ErrorInfo> last_words;   // its "fatal" frame, when it sent one
  std::vector<std::string> stderr_tail;  // its last lines, at most 64
};

struct Callbacks {
  std::function<void(Reply)> on_result;
  std::function<void(const ErrorInfo&)> on_error;  // also after cancel, and when the worker dies
  std::function<void(double fraction, const std::string& text)> on_progress;
};

using RequestId = std::uint64_t;

struct SubmitOptions {
  // A newer request with the same tag replaces one that still waits in the worker's queue; the
  // older one ends with the error "cancelled".
  std::string tag;
  std::vector<TensorRef> tensors;
};

struct CallOptions {
  std::function<void(double fraction, const std::string& text)> on_progress;
  // Asked every 50 ms; the request is cancelled when it says true. A worker that has not ended it
  // `patience` later is given up: call() ends as cancelled, and the next request has a new worker.
  std::function<bool()> should_cancel;
  std::chrono::milliseconds patience{30'000};
  std::vector<TensorRef> tensors;
};

// ---- WorkerClient ---------------------------------------------------------------------------

// All members may be called from any thread; callbacks run in the thread that calls drain(), one at
// a time, and may call any member. Nothing here blocks on the worker except call(). After a death
// the client stays usable: every request then ends with "worker_died" until restart().
class WorkerClient {
 public:
  explicit WorkerClient(ClientOptions options);
  // Ends the worker: its input is closed, then SIGTERM, after 2 s SIGKILL. No callback runs later.
  ~WorkerClient();
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  // Returns at once; requests may be submitted before the worker is ready, the first one starts it
  // too. What goes wrong (no such program, other version, no answer) is told by the death notice.
  void start();
  // Ends the present worker, if any, and starts another one. Requests of the old one end with
  // "worker_died".
  void restart();
  // Starts the other one with another command (another device, another host).
  void restart(WorkerCommand command);

  RequestId submit(std::string_view method, nlohmann::json params, Callbacks callbacks,
                   SubmitOptions options = {});
  // No effect on a request that has ended.
  void cancel(RequestId id);
  // Waits for the answer. Progress is called in this thread. Throws RequestError.
  Reply call(std::string_view method, nlohmann::json params, const CallOptions& options = {});

  // Runs the callbacks of all that has come since the last call; returns how many. Once a frame.
  std::size_t drain();
  // Waits until there is something to drain or the time has passed.
  bool wait(std::chrono::milliseconds limit);
  // Called from an inner thread whenever something has come for drain() (wake the event loop).
  void set_wake(std::function<void()> wake);

  // Told through drain().
  void on_ready(std::function<void(const Hello&)> callback);
  void on_death(std::function<void(const DeathNotice&)> callback);

  WorkerState state() const;
  std::optional<DeathNotice> death() const;
  // What the worker said of itself, once ready.
  std::optional<Hello> worker_hello() const;
  std::size_t pending() const;
  // The last lines of its standard error, at most 64; also of one that has died.
  std::vector<std::string> stderr_tail() const;
  // 0 when no worker runs.
  int process_id() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace phasescope::protocol
