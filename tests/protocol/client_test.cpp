#include "protocol/client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "protocol/event_queue.h"

namespace phasescope::protocol {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

ClientOptions options(const std::string& mode = "serve") {
  ClientOptions result;
  result.command.argv = {PHASESCOPE_FAKE_WORKER, mode};
  result.handshake_limit = seconds(10);
  return result;
}

// Drains until the condition holds; false when it does not within ten seconds.
template <class Condition>
bool drain_until(WorkerClient& client, Condition condition) {
  const auto until = std::chrono::steady_clock::now() + seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    client.wait(milliseconds(50));
    client.drain();
  }
  return true;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

DeathNotice death_of(WorkerClient& client) {
  client.start();
  EXPECT_TRUE(drain_until(client, [&] { return client.state() == WorkerState::dead; }));
  return client.death().value_or(DeathNotice{});
}

TEST(WorkerClient, CallsAndGetsTensorsBack) {
  WorkerClient client(options());
  std::vector<float> values(16u << 20, 1.5f);
  CallOptions call;
  call.tensors = {TensorRef::own<float>("x", {16, 1 << 20}, std::move(values))};
  const Reply reply = client.call("echo", {{"a", 1}}, call);
  EXPECT_EQ(reply.result["a"], 1);
  EXPECT_EQ(reply.tensor("x").values<float>()[12345], 1.5f);
  EXPECT_THROW(reply.tensor("y"), RequestError);
  EXPECT_EQ(client.state(), WorkerState::ready);
  EXPECT_EQ(client.worker_hello()->program, "fake-worker");
  EXPECT_EQ(client.worker_hello()->process_id, client.process_id());
}

TEST(WorkerClient, ErrorsKeepTheirFourFields) {
  WorkerClient client(options());
  try {
    client.call("fail", json::object());
    FAIL();
  } catch (const RequestError& error) {
    EXPECT_EQ(error.info(), (ErrorInfo{"bad_input", "No such model", "models/x", "See models"}));
  }
}

// 17.A9: an exception in the session's own thread ends the worker, not the program.
TEST(WorkerClient, Risk22_WhatIsThrownInTheSessionsThreadEndsTheWorkerAlone) {
  WorkerClient client(options());
  std::atomic<int> woken{0};
  client.set_wake([&] {
    if (++woken == 1) throw std::runtime_error("nobody can be woken");
  });
  const DeathNotice death = death_of(client);
  EXPECT_TRUE(contains(death.error.message, "nobody can be woken")) << death.error.message;
  EXPECT_EQ(death.error.code, "worker_died");
  client.restart();
  EXPECT_EQ(client.call("echo", {{"a", 1}}).result["a"], 1);
}

// 17.A9
TEST(EventQueue, WhatOneEventThrowsLeavesTheOthersToTheNextRun) {
  EventQueue queue;
  std::string ran;
  queue.push([&] { ran += "a"; });
  queue.push([&] {
    queue.push([&] { ran += "d"; });
    throw std::runtime_error("the second");
  });
  queue.push([&] { ran += "c"; });
  EXPECT_THROW(queue.run(), std::runtime_error);
  EXPECT_EQ(ran, "a");
  EXPECT_EQ(queue.run(), 2U);
  EXPECT_EQ(ran, "acd");
  EXPECT_EQ(queue.run(), 0U);
}

TEST(WorkerClient, DeliversThroughDrainInOrderAndWakes) {
  WorkerClient client(options());
  std::atomic<int> woken{0};
  client.set_wake([&] { ++woken; });
  std::vector<std::string> events;
  client.on_ready([&](const Hello&) { events.push_back("ready"); });
  for (int i = 0; i < 3; ++i) {
    Callbacks callbacks;
    callbacks.on_result = [&events](Reply reply) { events.push_back(reply.result["i"].dump()); };
    client.submit("echo", {{"i", i}}, callbacks);
  }
  EXPECT_EQ(client.pending(), 3u);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_TRUE(events.empty()) << "a callback ran outside drain()";
  // An event may be drained before the call that wakes for it.
  EXPECT_TRUE(drain_until(client, [&] { return events.size() == 4 && woken >= 4; }));
  EXPECT_EQ(events, (std::vector<std::string>{"ready", "0", "1", "2"}));
  EXPECT_EQ(client.pending(), 0u);
}

TEST(WorkerClient, KeepsOnlyTheNewestProgressThatWaits) {
  WorkerClient client(options());
  int progress = 0;
  double last = 0;
  bool done = false;
  Callbacks callbacks;
  callbacks.on_progress = [&](double fraction, const std::string& text) {
    EXPECT_FALSE(done);
    EXPECT_EQ(text, "step");
    ++progress;
    last = fraction;
  };
  callbacks.on_result = [&](Reply) { done = true; };
  client.submit("steps", json::object(), callbacks);
  client.call("echo", json::object());  // the others have come by then, undrained
  EXPECT_TRUE(drain_until(client, [&] { return done; }));
  EXPECT_EQ(progress, 1);
  EXPECT_DOUBLE_EQ(last, 0.99);
}

TEST(WorkerClient, CancelsARunningRequest) {
  WorkerClient client(options());
  std::string code;
  Callbacks callbacks;
  callbacks.on_error = [&](const ErrorInfo& error) { code = error.code; };
  const auto id = client.submit("wait", json::object(), callbacks);
  client.cancel(id);
  EXPECT_TRUE(drain_until(client, [&] { return !code.empty(); }));
  EXPECT_EQ(code, "cancelled");

  CallOptions call;
  call.should_cancel = [] { return true; };
  EXPECT_THROW(client.call("wait", json::object(), call), RequestError);
}

TEST(Row24, KilledInARequestTellsHowAndStartsAgain) {
  WorkerClient client(options());
  std::vector<std::string> events;
  client.on_death([&](const DeathNotice& notice) { events.push_back(notice.how); });
  Callbacks callbacks;
  callbacks.on_error = [&](const ErrorInfo& error) { events.push_back(error.code); };
  client.submit("die", {{"lines", 100}}, callbacks);
  client.submit("echo", json::object(), callbacks);
  EXPECT_TRUE(drain_until(client, [&] { return events.size() == 3; }));
  EXPECT_EQ(events,
            (std::vector<std::string>{"was killed by SIGKILL", "worker_died", "worker_died"}));
  const auto death = client.death();
  ASSERT_TRUE(death);
  EXPECT_EQ(death->signal, SIGKILL);
  EXPECT_FALSE(death->exit_status);
  ASSERT_EQ(death->stderr_tail.size(), 64u);
  EXPECT_EQ(death->stderr_tail.back(), "line 99");
  EXPECT_EQ(client.state(), WorkerState::dead);

  // Nothing is different for whoever asks a dead worker, only the answer.
  EXPECT_THROW(client.call("echo", json::object()), RequestError);
  client.cancel(1);
  client.restart();
  EXPECT_EQ(client.call("echo", {{"a", 2}}).result["a"], 2);
  EXPECT_EQ(client.state(), WorkerState::ready);
  EXPECT_FALSE(client.death());
}

TEST(Row24, KilledFromOutsideWhileItSends) {
  WorkerClient client(options());
  client.start();
  ASSERT_TRUE(drain_until(client, [&] { return client.state() == WorkerState::ready; }));
  bool ended = false;
  Callbacks callbacks;
  callbacks.on_result = [&](Reply) { ADD_FAILURE() << "a stopped worker has answered"; };
  callbacks.on_error = [&](const ErrorInfo& error) {
    EXPECT_EQ(error.code, "worker_died");
    ended = true;
  };
  ::kill(client.process_id(), SIGSTOP);  // so that the question cannot be through before the end
  SubmitOptions submit;
  submit.tensors = {TensorRef::own<float>("x", {1 << 24}, std::vector<float>(1 << 24))};
  client.submit("echo", json::object(), callbacks, submit);
  ::kill(client.process_id(), SIGKILL);
  EXPECT_TRUE(drain_until(client, [&] { return ended; }));
  EXPECT_EQ(death_of(client).signal, SIGKILL);
}

TEST(Row22, AFatalErrorIsTheReasonGiven) {
  WorkerClient client(options());
  EXPECT_THROW(client.call("fatal", json::object()), RequestError);
  const auto death = death_of(client);
  EXPECT_EQ(death.exit_status, 70);
  ASSERT_TRUE(death.last_words);
  EXPECT_TRUE(contains(death.error.message, "an illegal memory access")) << death.error.message;
}

TEST(WorkerClient, ExitStatusIsTold) {
  WorkerClient client(options());
  EXPECT_THROW(client.call("die", {{"status", 3}}), RequestError);
  EXPECT_EQ(death_of(client).how, "left with status 3");
}

TEST(WorkerClient, ProgramThatIsNotThere) {
  ClientOptions missing;
  missing.command.argv = {"/nonexistent/phasescope-worker"};
  WorkerClient client(missing);
  const auto death = death_of(client);
  EXPECT_EQ(death.error.code, "worker_died");
  EXPECT_EQ(death.error.where, "/nonexistent/phasescope-worker");
  EXPECT_TRUE(contains(death.error.message, "No such file")) << death.error.message;
}

TEST(Row29, TextOfSshIsShownWhenItIsDenied) {
  auto denied = options("denied");
  denied.command.relayed = true;
  WorkerClient client(denied);
  const auto death = death_of(client);
  EXPECT_EQ(death.exit_status, 255);
  EXPECT_EQ(death.error.hint, "Permission denied (publickey).");
  EXPECT_EQ(death.stderr_tail.size(), 2u);
}

TEST(Row29, BothVersionsAreNamed) {
  WorkerClient client(options("later"));
  const auto message = death_of(client).error.message;
  EXPECT_TRUE(contains(message, "phasescope-worker 0.9.0 speaks protocol 2")) << message;
  EXPECT_TRUE(contains(message, "phasescope 0.1.0 speaks protocol 1")) << message;
}

TEST(Row29, ABannerIsSkippedAndMuchTextIsNot) {
  auto banner = options("banner");
  banner.command.relayed = true;
  WorkerClient client(banner);
  EXPECT_EQ(client.call("echo", {{"a", 1}}).result["a"], 1);

  WorkerClient other(options("chatter"));
  EXPECT_TRUE(contains(death_of(other).error.message, "no frame"));
}

TEST(Row37, NoHelloWithinTheLimit) {
  auto silent = options("silent");
  silent.handshake_limit = milliseconds(200);
  WorkerClient client(silent);
  EXPECT_TRUE(contains(death_of(client).error.message, "no hello came within 0.2 s"));
}

TEST(WorkerClient, InheritsNoDescriptors) {
  const int open = ::open("/dev/null", O_RDONLY);  // not close-on-exec
  WorkerClient client(options());
  EXPECT_EQ(client.call("inherited", json::object()).result["files"], 0);
  ::close(open);
}

TEST(WorkerClient, RestartEndsWhatThePresentWorkerOwes) {
  WorkerClient client(options());
  std::string code;
  Callbacks callbacks;
  callbacks.on_error = [&](const ErrorInfo& error) { code = error.code; };
  client.submit("wait", json::object(), callbacks);
  client.restart();
  EXPECT_TRUE(drain_until(client, [&] { return !code.empty(); }));
  EXPECT_EQ(code, "worker_died");
  EXPECT_EQ(client.call("echo", {{"a", 3}}).result["a"], 3);
}

TEST(Row37, EndsAWorkerThatDoesNotListen_Risk15) {
  int process = 0;
  const auto start = std::chrono::steady_clock::now();
  {
    WorkerClient client(options());
    client.submit("stuck", json::object(), {});
    ASSERT_TRUE(drain_until(client, [&] { return client.state() == WorkerState::ready; }));
    std::this_thread::sleep_for(milliseconds(100));
    process = client.process_id();
  }
  // It would listen again after a minute; a busy machine may take some seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
  EXPECT_EQ(::kill(process, 0), -1) << "it still runs";
}

// It hears of nothing, and whoever waits for it has asked to leave.
TEST(Row37, AWorkerThatDoesNotCancelIsGivenUp) {
  WorkerClient client(options());
  client.call("echo", json::object());
  const int before = client.process_id();
  CallOptions call;
  call.should_cancel = [] { return true; };
  call.patience = milliseconds(50);
  std::string code;
  try {
    client.call("stuck", json::object(), call);
  } catch (const RequestError& error) {
    code = error.info().code;
  }
  EXPECT_EQ(code, "cancelled");
  EXPECT_EQ(client.call("echo", {{"a", 4}}).result["a"], 4);
  EXPECT_NE(client.process_id(), before);
}

TEST(WorkerClient, WhatSendsBackAllThatItGetsIsNoWorker) {
  auto another = options();
  another.command.argv = {"/bin/cat"};
  WorkerClient client(another);
  const DeathNotice death = death_of(client);
  EXPECT_TRUE(contains(death.error.message, "it is no worker")) << death.error.message;
  EXPECT_EQ(death.error.where, "/bin/cat");
}

TEST(WorkerClient, ARequestThatNoFrameHoldsIsRefused) {
  auto small = options();
  small.frame_limits.header = 1000;
  WorkerClient client(small);
  try {
    client.call("echo", {{"text", std::string(2000, 'x')}});
    FAIL();
  } catch (const RequestError& error) {
    EXPECT_EQ(error.info().code, "bad_input");
  }
  EXPECT_EQ(client.call("echo", {{"a", 1}}).result["a"], 1);
}

TEST(RemoteWorker, QuotesForTheShellOnTheFarSide) {
  const auto command = remote_worker("-oProxyCommand=x", {"--device", "it's"});
  EXPECT_TRUE(command.relayed);
  EXPECT_EQ(command.argv.front(), "ssh");
  EXPECT_EQ(command.argv.back(), R"(phasescope worker --device 'it'\''s')");
  EXPECT_EQ(*(command.argv.end() - 3), "--") << "a host is never an option";
}

}  // namespace
}  // namespace phasescope::protocol
