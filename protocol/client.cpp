#include "protocol/client.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "protocol/event_queue.h"
#include "protocol/shell_word.h"
#include "protocol/spawn.h"
#include "protocol/worker_session.h"

namespace phasescope::protocol {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds call_step{50};

ErrorInfo died(std::string message) {
  return {std::string(error_code::worker_died), std::move(message), "", ""};
}

}  // namespace

WorkerCommand local_worker(std::vector<std::string> arguments) {
  const char* chosen = std::getenv("PHASESCOPE_WORKER");
  WorkerCommand command;
  command.argv = {chosen ? chosen : program_folder() + "/phasescope-worker"};
  for (auto& argument : arguments) command.argv.push_back(std::move(argument));
  return command;
}

WorkerCommand remote_worker(const std::string& host, std::vector<std::string> arguments) {
  WorkerCommand command;
  command.relayed = true;
  command.argv = {"ssh",
                  "-T",
                  "-o",
                  "BatchMode=yes",
                  "-o",
                  "ServerAliveInterval=15",
                  "-o",
                  "ServerAliveCountMax=3",
                  "--",
                  host,
                  "phasescope worker"};
  // The far side's shell reads the command line that ssh puts together.
  for (const auto& argument : arguments) command.argv.back() += " " + shell_word(argument);
  return command;
}

class WorkerClient::Impl {
 public:
  explicit Impl(ClientOptions options) : options_(std::move(options)) {}
  ~Impl();

  void start();
  void restart(std::optional<WorkerCommand> command);
  RequestId submit(std::string_view method, nlohmann::json params, Callbacks callbacks,
                   SubmitOptions options, std::shared_ptr<EventQueue> sink);
  void cancel(RequestId id);
  void give_up();
  Reply call(std::string_view method, nlohmann::json params, const CallOptions& options);

  // Callbacks and what they are, read under the lock.
  struct Told {
    std::function<void()> wake;
    std::function<void(const Hello&)> ready;
    std::function<void(const DeathNotice&)> death;
  };
  template <class Function>
  auto locked(Function function) const {
    std::lock_guard lock(mutex_);
    return function();
  }

  mutable std::mutex mutex_;
  Told told_;
  WorkerState state_ = WorkerState::not_started;
  std::optional<DeathNotice> death_;
  std::optional<Hello> hello_;
  std::shared_ptr<WorkerSession> session_;  // kept after its death for its last lines
  const std::shared_ptr<EventQueue> queue_ = std::make_shared<EventQueue>();

  struct Pending {
    std::shared_ptr<const Callbacks> callbacks;
    std::shared_ptr<EventQueue> sink;
  };
  std::unordered_map<RequestId, Pending> pending_;

 private:
  void begin_session();
  void retire_session();
  bool is_current(std::uint64_t life) const { return life == life_; }
  void session_ready(std::uint64_t life, const Hello& hello);
  void session_frame(std::uint64_t life, Frame frame);
  void session_ended(std::uint64_t life, DeathNotice death);
  void deliver_end(const Pending& pending, Frame frame);
  void deliver_progress(const Pending& pending, const Frame& frame);
  void fail(const Pending& pending, const ErrorInfo& error);
  void fail_all(const ErrorInfo& error);
  void wake() const;

  ClientOptions options_;
  std::uint64_t life_ = 0;  // counts sessions; what an older one still says is not heard
  RequestId last_id_ = 0;
  std::vector<std::shared_ptr<WorkerSession>> retired_;  // ending in the background
};

WorkerClient::Impl::~Impl() {
  std::vector<std::shared_ptr<WorkerSession>> sessions;
  {
    std::lock_guard lock(mutex_);
    ++life_;
    sessions = std::move(retired_);
    if (session_) sessions.push_back(std::move(session_));
  }
  for (auto& session : sessions) session->stop();
}

void WorkerClient::Impl::start() {
  std::lock_guard lock(mutex_);
  if (state_ == WorkerState::not_started) begin_session();
}

void WorkerClient::Impl::begin_session() {
  const std::uint64_t life = ++life_;
  state_ = WorkerState::starting;
  death_.reset();
  hello_.reset();
  SessionEvents events;
  events.ready = [this, life](const Hello& hello) { session_ready(life, hello); };
  events.frame = [this, life](Frame frame) { session_frame(life, std::move(frame)); };
  events.ended = [this, life](DeathNotice death) { session_ended(life, std::move(death)); };
  session_ = std::make_shared<WorkerSession>(options_, std::move(events));
}

void WorkerClient::Impl::restart(std::optional<WorkerCommand> command) {
  {
    std::lock_guard lock(mutex_);
    if (command) options_.command = std::move(*command);
    retire_session();
    fail_all(died("the worker was restarted before it answered"));
    begin_session();
  }
  wake();
}

// Ends the worker in the background; the next request begins another one.
void WorkerClient::Impl::give_up() {
  {
    std::lock_guard lock(mutex_);
    retire_session();
    ++life_;
    state_ = WorkerState::not_started;
    fail_all({std::string(error_code::cancelled), "the request was cancelled", "", ""});
  }
  wake();
}

void WorkerClient::Impl::retire_session() {
  std::erase_if(retired_, [](const auto& session) { return session->finished(); });
  if (!session_) return;
  session_->stop();
  retired_.push_back(std::move(session_));
}

RequestId WorkerClient::Impl::submit(std::string_view method, nlohmann::json params,
                                     Callbacks callbacks, SubmitOptions options,
                                     std::shared_ptr<EventQueue> sink) {
  nlohmann::json body = {{"method", method}, {"params", std::move(params)}};
  if (!options.tag.empty()) body["tag"] = options.tag;
  std::unique_lock lock(mutex_);
  if (state_ == WorkerState::not_started) begin_session();
  const RequestId id = ++last_id_;
  Pending pending{std::make_shared<const Callbacks>(std::move(callbacks)), std::move(sink)};
  if (state_ == WorkerState::dead) {
    fail(pending, death_->error);
    lock.unlock();
    wake();
    return id;
  }
  pending_.emplace(id, std::move(pending));
  session_->post({FrameType::request, id, std::move(body), std::move(options.tensors)});
  return id;
}

void WorkerClient::Impl::cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  if (pending_.contains(id)) session_->post({FrameType::cancel, id, nlohmann::json::object(), {}});
}

Reply WorkerClient::Impl::call(std::string_view method, nlohmann::json params,
                               const CallOptions& options) {
  std::optional<Reply> reply;
  std::optional<ErrorInfo> error;
  Callbacks callbacks;
  callbacks.on_result = [&](Reply came) { reply = std::move(came); };
  callbacks.on_error = [&](const ErrorInfo& came) { error = came; };
  callbacks.on_progress = options.on_progress;
  auto sink = std::make_shared<EventQueue>();
  const RequestId id =
      submit(method, std::move(params), std::move(callbacks), {"", options.tensors}, sink);
  std::optional<Clock::time_point> patient_until;
  while (!reply && !error) {
    sink->wait(call_step);
    sink->run();
    if (!patient_until && options.should_cancel && options.should_cancel()) {
      patient_until = Clock::now() + options.patience;
      cancel(id);
    } else if (patient_until && Clock::now() > *patient_until) {
      give_up();  // the error that call() waits for comes of it
      patient_until = Clock::time_point::max();
    }
  }
  if (error) throw RequestError(*error);
  return std::move(*reply);
}

// ---- What the session tells, in its thread --------------------------------------------------

void WorkerClient::Impl::session_ready(std::uint64_t life, const Hello& hello) {
  {
    std::lock_guard lock(mutex_);
    if (!is_current(life)) return;
    state_ = WorkerState::ready;
    hello_ = hello;
    if (told_.ready) queue_->push([told = told_.ready, hello] { told(hello); });
  }
  wake();
}

void WorkerClient::Impl::session_frame(std::uint64_t life, Frame frame) {
  {
    std::lock_guard lock(mutex_);
    const auto found = pending_.find(frame.id);
    if (!is_current(life) || found == pending_.end()) return;
    if (frame.type == FrameType::progress) {
      deliver_progress(found->second, frame);
    } else if (frame.type == FrameType::result || frame.type == FrameType::error) {
      const Pending pending = std::move(found->second);
      pending_.erase(found);
      deliver_end(pending, std::move(frame));
    }
  }
  wake();
}

void WorkerClient::Impl::deliver_progress(const Pending& pending, const Frame& frame) {
  if (!pending.callbacks->on_progress) return;
  double fraction = -1;
  if (const auto given = frame.header.find("fraction");
      given != frame.header.end() && given->is_number()) {
    fraction = given->get<double>();
  }
  std::string text;
  if (const auto given = frame.header.find("text");
      given != frame.header.end() && given->is_string()) {
    text = given->get<std::string>();
  }
  pending.sink->push_newest(frame.id, [callbacks = pending.callbacks, fraction, text] {
    callbacks->on_progress(fraction, text);
  });
}

void WorkerClient::Impl::deliver_end(const Pending& pending, Frame frame) {
  if (frame.type == FrameType::error) return fail(pending, frame.header.get<ErrorInfo>());
  auto reply = std::make_shared<Reply>(std::move(frame.header), std::move(frame.tensors));
  pending.sink->push([callbacks = pending.callbacks, reply] {
    if (callbacks->on_result) callbacks->on_result(std::move(*reply));
  });
}

void WorkerClient::Impl::fail(const Pending& pending, const ErrorInfo& error) {
  pending.sink->push([callbacks = pending.callbacks, error] {
    if (callbacks->on_error) callbacks->on_error(error);
  });
}

void WorkerClient::Impl::fail_all(const ErrorInfo& error) {
  for (const auto& [id, pending] : std::exchange(pending_, {})) fail(pending, error);
}

void WorkerClient::Impl::session_ended(std::uint64_t life, DeathNotice death) {
  {
    std::lock_guard lock(mutex_);
    if (!is_current(life)) return;
    state_ = WorkerState::dead;
    death_ = std::move(death);
    if (told_.death) queue_->push([told = told_.death, notice = *death_] { told(notice); });
    fail_all(death_->error);
  }
  wake();
}

void WorkerClient::Impl::wake() const {
  const auto wake = locked([this] { return told_.wake; });
  if (wake) wake();
}

// ---- The public face ------------------------------------------------------------------------

WorkerClient::WorkerClient(ClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
WorkerClient::~WorkerClient() = default;

void WorkerClient::start() { impl_->start(); }
void WorkerClient::restart() { impl_->restart(std::nullopt); }
void WorkerClient::restart(WorkerCommand command) { impl_->restart(std::move(command)); }

RequestId WorkerClient::submit(std::string_view method, nlohmann::json params, Callbacks callbacks,
                               SubmitOptions options) {
  return impl_->submit(method, std::move(params), std::move(callbacks), std::move(options),
                       impl_->queue_);
}

void WorkerClient::cancel(RequestId id) { impl_->cancel(id); }

Reply WorkerClient::call(std::string_view method, nlohmann::json params,
                         const CallOptions& options) {
  return impl_->call(method, std::move(params), options);
}

std::size_t WorkerClient::drain() { return impl_->queue_->run(); }
bool WorkerClient::wait(std::chrono::milliseconds limit) { return impl_->queue_->wait(limit); }

void WorkerClient::set_wake(std::function<void()> wake) {
  impl_->locked([&] { impl_->told_.wake = std::move(wake); });
}
void WorkerClient::on_ready(std::function<void(const Hello&)> callback) {
  impl_->locked([&] { impl_->told_.ready = std::move(callback); });
}
void WorkerClient::on_death(std::function<void(const DeathNotice&)> callback) {
  impl_->locked([&] { impl_->told_.death = std::move(callback); });
}

WorkerState WorkerClient::state() const {
  return impl_->locked([&] { return impl_->state_; });
}
std::optional<DeathNotice> WorkerClient::death() const {
  return impl_->locked([&] { return impl_->death_; });
}
std::optional<Hello> WorkerClient::worker_hello() const {
  return impl_->locked([&] { return impl_->hello_; });
}
std::size_t WorkerClient::pending() const {
  return impl_->locked([&] { return impl_->pending_.size(); });
}
std::vector<std::string> WorkerClient::stderr_tail() const {
  const auto session = impl_->locked([&] { return impl_->session_; });
  return session ? session->stderr_tail() : std::vector<std::string>();
}
int WorkerClient::process_id() const {
  const auto session = impl_->locked([&] { return impl_->session_; });
  return session ? session->process_id() : 0;
}

}  // namespace phasescope::protocol
