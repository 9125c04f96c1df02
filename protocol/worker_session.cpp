#include "protocol/worker_session.h"

#include <fcntl.h>
#include <unistd.h>

#include <new>
#include <utility>

namespace phasescope::protocol {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds receive_step{500};
constexpr milliseconds exit_grace{2'000};

// A name for the handshake only; a machine without one is no reason to fail.
std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

Hello our_hello() {
  Hello hello;
  hello.program = "phasescope";
  hello.version = PHASESCOPE_VERSION;
  hello.host = host_name();
  hello.process_id = ::getpid();
  return hello;
}

}  // namespace

WorkerSession::WorkerSession(const ClientOptions& options, SessionEvents events)
    : options_(options), events_(std::move(events)), thread_([this] { run(); }) {}

WorkerSession::~WorkerSession() {
  stop();
  thread_.join();
}

void WorkerSession::post(Frame frame) {
  std::lock_guard lock(mutex_);
  if (outbox_) {
    outbox_->post(std::move(frame));
  } else {
    early_.push_back(std::move(frame));
  }
}

void WorkerSession::stop() {
  stopping_ = true;
  std::lock_guard lock(mutex_);
  if (channel_) channel_->close("the worker is not needed any more");
}

std::vector<std::string> WorkerSession::stderr_tail() const {
  std::lock_guard lock(mutex_);
  return stderr_ ? stderr_->lines() : std::vector<std::string>();
}

void WorkerSession::run() {
  DeathNotice death;
  try {
    ChildProcess child(options_.command.argv);
    process_id_ = child.id();
    connect_and_converse(child);
    death = notice(end_process(child));
  } catch (const std::exception& error) {
    death.error = {std::string(error_code::worker_died),
                   std::string("the worker could not be started: ") + error.what(),
                   options_.command.argv.empty() ? "" : options_.command.argv.front(), ""};
    death.how = "was not started";
  }
  process_id_ = 0;
  try {
    events_.ended(std::move(death));
  } catch (const std::exception&) {  // whoever hears of it has failed, not this thread
  }
  finished_ = true;
}

// Nothing that goes wrong here, the memory for a large answer for instance, may end the whole
// program: it ends this worker.
void WorkerSession::connect_and_converse(ChildProcess& child) {
  try {
    connect(child);
    converse();
  } catch (const ChannelClosed& closed) {
    reason_ = closed.what();
    closed_by_worker_ = closed.end_of_input();
  } catch (const std::bad_alloc&) {
    reason_ = "there is no memory for what it sent";
  } catch (const std::exception& error) {
    reason_ = error.what();
  }
}

void WorkerSession::connect(ChildProcess& child) {
  formats::UniqueFd in = child.take_socket();
  formats::UniqueFd out(::fcntl(in.get(), F_DUPFD_CLOEXEC, 3));
  auto channel = std::make_unique<Channel>(std::move(in), std::move(out), !options_.command.relayed,
                                           options_.frame_limits, options_.time_limits);
  auto refused = [this](const Frame& frame, const std::string& why) { refuse(frame, why); };
  std::lock_guard lock(mutex_);
  stderr_ = std::make_unique<StderrTail>(child.take_stderr());
  channel_ = std::move(channel);
  outbox_ = std::make_unique<Outbox>(*channel_, options_.time_limits.heartbeat, refused);
  for (auto& frame : std::exchange(early_, {})) outbox_->post(std::move(frame));
  if (stopping_) channel_->close("the worker is not needed any more");
}

// What sends back whatever it gets has the right version and a heartbeat, and no answer, ever.
void WorkerSession::converse() {
  const Hello ours = our_hello();
  const Hello hello = channel_->handshake(ours, options_.handshake_limit);
  if (hello.program == ours.program) throw ChannelClosed("it is no worker", false);
  ready_ = true;
  outbox_->start();
  events_.ready(hello);
  while (!stopping_) {
    if (auto frame = channel_->receive(receive_step)) deliver(std::move(*frame));
  }
}

void WorkerSession::deliver(Frame frame) {
  if (frame.type == FrameType::fatal) {
    last_words_ = frame.header.get<ErrorInfo>();
  } else {
    events_.frame(std::move(frame));
  }
}

// A request that no frame can hold ends as if the worker had refused it.
void WorkerSession::refuse(const Frame& frame, const std::string& reason) {
  const ErrorInfo error{std::string(error_code::bad_input), "the request cannot be sent: " + reason,
                        "", ""};
  events_.frame({FrameType::error, frame.id, error, {}});
}

ProcessEnd WorkerSession::end_process(ChildProcess& child) const {
  const bool leaves_by_itself = closed_by_worker_ || last_words_;
  ProcessEnd end;
  if (auto ended = child.wait(leaves_by_itself ? exit_grace : milliseconds(0))) {
    end = *ended;
  } else {
    end = child.end(exit_grace);
  }
  if (stderr_) stderr_->finish();
  return end;
}

std::string WorkerSession::death_message(const ProcessEnd& end) const {
  const std::string how = "the worker " + describe(end);
  if (stopping_) return "the worker was ended";
  if (last_words_) return how + " after a fatal error: " + last_words_->message;
  if (!closed_by_worker_) return "the connection to the worker was given up: " + reason_;
  return ready_ ? how : how + " before it was ready";
}

DeathNotice WorkerSession::notice(const ProcessEnd& end) const {
  DeathNotice death;
  death.exit_status = end.exit_status;
  death.signal = end.signal;
  death.how = describe(end);
  death.last_words = last_words_;
  death.stderr_tail = stderr_tail();
  death.error = {std::string(error_code::worker_died), death_message(end), "", ""};
  // Another program than ours may have been named to be started.
  if (!ready_ && !options_.command.relayed) death.error.where = options_.command.argv.front();
  if (!death.stderr_tail.empty()) death.error.hint = death.stderr_tail.back();
  if (!ready_ && channel_ && death.error.hint.empty()) death.error.hint = channel_->banner();
  return death;
}

}  // namespace phasescope::protocol
