#include "worker/server.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "protocol/outbox.h"
#include "worker/request_queue.h"

namespace phasescope::worker {

namespace {

using protocol::ErrorInfo;
using protocol::Frame;
using protocol::FrameType;
using std::chrono::milliseconds;

constexpr milliseconds receive_step{1'000};
constexpr milliseconds progress_step{50};
constexpr milliseconds handshake_limit{30'000};
constexpr milliseconds last_words_limit{2'000};
// Results that the other side has not taken yet; computing waits beyond.
constexpr std::size_t most_unsent_bytes = 256u << 20;

ErrorInfo error_of(std::string_view code, std::string message, std::string hint = {}) {
  return {std::string(code), std::move(message), "", std::move(hint)};
}

// A request while it computes: what its handler sees, and what cancels it.
class RunningRequest final : public RequestContext {
 public:
  RunningRequest(const Request& request, const ServerOptions& options, protocol::Outbox& outbox)
      : request_(request), options_(options), outbox_(outbox) {}

  void progress(double fraction, std::string_view text) override {
    const auto now = std::chrono::steady_clock::now();
    std::lock_guard lock(mutex_);
    if (last_ && now - *last_ < progress_step) return;
    last_ = now;
    outbox_.post({FrameType::progress, request_.id, {{"fraction", fraction}, {"text", text}}, {}});
  }
  bool cancelled() const override { return cancelled_; }
  void cancel() { cancelled_ = true; }

  std::span<const protocol::TensorRef> tensors() const override { return request_.tensors; }
  const WorkerSettings& settings() const override { return options_.settings; }
  const nlohmann::json& facts() const override { return options_.facts; }
  ModelCache& models() const override {
    if (options_.models) return *options_.models;
    throw protocol::RequestError(
        error_of(protocol::error_code::internal, "this worker opens no models"));
  }
  std::uint64_t id() const { return request_.id; }

 private:
  const Request& request_;
  const ServerOptions& options_;
  protocol::Outbox& outbox_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;  // a handler may report from threads of its own
  std::optional<std::chrono::steady_clock::time_point> last_;
};

// Shared by the receiving and the computing thread, and kept by the latter when it is left behind.
class Server : public std::enable_shared_from_this<Server> {
 public:
  Server(std::unique_ptr<protocol::Channel> channel, ServerOptions options);
  int run();

 private:
  void receive_all();
  void receive(Frame frame);
  void accept(Frame frame);
  void cancel(std::uint64_t id);
  void compute_all();
  void compute(Request request);
  Frame answer(const Request& request, RunningRequest& running);
  void send_error(std::uint64_t id, const ErrorInfo& error);
  void leave();

  std::unique_ptr<protocol::Channel> channel_;
  ServerOptions options_;
  std::unordered_map<std::string, HandlerFunction> methods_;
  RequestQueue queue_;
  std::atomic<int> status_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<RunningRequest> running_;
  bool computing_ended_ = true;
  std::uint64_t early_cancel_ = 0;  // came after its request left the queue, before it ran

  protocol::Outbox outbox_;  // last: its thread uses the channel
};

Server::Server(std::unique_ptr<protocol::Channel> channel, ServerOptions options)
    : channel_(std::move(channel)),
      options_(std::move(options)),
      outbox_(*channel_, options_.times.heartbeat,
              [this](const Frame& frame, const std::string& reason) {
                send_error(frame.id, error_of(protocol::error_code::bad_input,
                                              "the answer cannot be sent: " + reason,
                                              "ask for fewer rows, columns or layers"));
              }) {
  for (const auto& handler : options_.handlers) methods_.emplace(handler.name, handler.run);
}

int Server::run() {
  try {
    protocol::Hello hello;
    hello.program = "phasescope-worker";
    hello.version = options_.version;
    hello.process_id = ::getpid();
    channel_->handshake(hello, handshake_limit);
    outbox_.start();
    computing_ended_ = false;
    std::thread([self = shared_from_this()] { self->compute_all(); }).detach();
    receive_all();
  } catch (const protocol::ChannelClosed& closed) {
    if (!closed.end_of_input() && status_ == 0) {
      std::fprintf(stderr, "phasescope-worker: %s\n", closed.what());
      status_ = 1;
    }
  }
  leave();
  return status_;
}

void Server::receive_all() {
  while (true) {
    if (auto frame = channel_->receive(receive_step)) receive(std::move(*frame));
  }
}

void Server::receive(Frame frame) {
  if (frame.type == FrameType::request) {
    accept(std::move(frame));
  } else if (frame.type == FrameType::cancel) {
    cancel(frame.id);
  } else {
    channel_->close("a frame that only a worker sends");
  }
}

void Server::accept(Frame frame) {
  Request request;
  try {
    request.id = frame.id;
    request.method = frame.header.at("method").get<std::string>();
    request.params = frame.header.value("params", nlohmann::json::object());
    request.tag = frame.header.value("tag", "");
    request.tensors = std::move(frame.tensors);
  } catch (const nlohmann::json::exception& error) {
    return send_error(frame.id, error_of(protocol::error_code::bad_usage,
                                         std::string("A malformed request: ") + error.what()));
  }
  const auto result = queue_.push(std::move(request));
  if (result.outcome == RequestQueue::Pushed::replaced_older) {
    send_error(result.replaced,
               error_of(protocol::error_code::cancelled, "A newer request replaced this one"));
  }
  if (result.outcome == RequestQueue::Pushed::full) {
    send_error(frame.id, error_of(protocol::error_code::bad_usage, "too many requests wait"));
  }
}

void Server::cancel(std::uint64_t id) {
  if (queue_.remove(id)) {
    return send_error(id, error_of(protocol::error_code::cancelled, "the request was cancelled"));
  }
  std::lock_guard lock(mutex_);
  if (running_ && running_->id() == id) {
    running_->cancel();
  } else {
    early_cancel_ = id;
  }
}

void Server::compute_all() {
  while (auto request = queue_.pop()) {
    compute(std::move(*request));
    outbox_.wait_until_below(most_unsent_bytes);
  }
  std::lock_guard lock(mutex_);
  computing_ended_ = true;
  changed_.notify_all();
}

void Server::compute(Request request) {
  auto running = std::make_shared<RunningRequest>(request, options_, outbox_);
  {
    std::lock_guard lock(mutex_);
    running_ = running;
    if (early_cancel_ == request.id) running->cancel();
  }
  Frame frame = answer(request, *running);
  {
    std::lock_guard lock(mutex_);
    running_.reset();
  }
  const bool fatal = frame.type == FrameType::fatal;
  outbox_.post(std::move(frame));
  if (!fatal) return;
  outbox_.flush(last_words_limit);
  status_ = fatal_status;
  queue_.close();
  channel_->close("a fatal error");
}

// The handler's tensors are gone when its exception is described: what it held is free again.
Frame Server::answer(const Request& request, RunningRequest& running) {
  std::exception_ptr exception;
  try {
    const auto method = methods_.find(request.method);
    if (method == methods_.end()) {
      throw protocol::RequestError(
          error_of(protocol::error_code::bad_usage, "there is no method '" + request.method + "'"));
    }
    if (!request.params.is_object()) {
      throw protocol::RequestError(
          error_of(protocol::error_code::bad_usage, "the parameters are not an object"));
    }
    protocol::Reply reply = method->second(request.params, running);
    return {FrameType::result, request.id, std::move(reply.result), std::move(reply.tensors)};
  } catch (...) {
    exception = std::current_exception();
  }
  const Failure failure = describe_failure(exception, options_.translators);
  return {failure.fatal ? FrameType::fatal : FrameType::error, request.id, failure.error, {}};
}

void Server::send_error(std::uint64_t id, const ErrorInfo& error) {
  outbox_.post({FrameType::error, id, error, {}});
}

void Server::leave() {
  channel_->close("the worker is leaving");
  queue_.close();
  std::unique_lock lock(mutex_);
  if (running_) running_->cancel();
  changed_.wait_for(lock, options_.leave_limit, [this] { return computing_ended_; });
}

}  // namespace

int serve(std::unique_ptr<protocol::Channel> channel, ServerOptions options) {
  return std::make_shared<Server>(std::move(channel), std::move(options))->run();
}

}  // namespace phasescope::worker
