#include "worker/server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "formats/error.h"
#include "protocol/client.h"
#include "protocol/spawn.h"
#include "worker/failure.h"
#include "worker/request_queue.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;
using protocol::Callbacks;
using protocol::ErrorInfo;
using protocol::Reply;
using protocol::RequestError;
using protocol::WorkerClient;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

protocol::ClientOptions options(bool relayed = false) {
  protocol::ClientOptions result;
  result.command.argv = {PHASESCOPE_SERVING_WORKER};
  result.command.relayed = relayed;
  return result;
}

template <class Condition>
bool drain_until(WorkerClient& client, Condition condition) {
  const auto until = Clock::now() + seconds(10);
  while (!condition()) {
    if (Clock::now() > until) return false;
    client.wait(milliseconds(50));
    client.drain();
  }
  return true;
}

// Submits and puts down how it ended: the error's code, or "done".
struct Ended {
  std::string how;
  std::string message;

  Callbacks callbacks() {
    Callbacks result;
    result.on_result = [this](Reply) { how = "done"; };
    result.on_error = [this](const ErrorInfo& error) {
      how = error.code;
      message = error.message;
    };
    return result;
  }
};

std::string code_of(WorkerClient& client, const std::string& method, const json& params) {
  try {
    client.call(method, params);
    return "done";
  } catch (const RequestError& error) {
    return error.info().code;
  }
}

TEST(Server, AnswersInfo) {
  WorkerClient client(options());
  const Reply reply = client.call("worker.info", json::object());
  EXPECT_EQ(reply.result["process_id"], client.process_id());
  EXPECT_EQ(reply.result["device"], "cpu");
  EXPECT_EQ(reply.result["version"], "0.1.0");
}

// For who chooses a model on the worker's machine.
TEST(Server, TellsWhatIsInAFolder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("folder_" + std::to_string(::getpid()));
  fs::create_directories(folder / "deeper");
  std::ofstream(folder / "model.gguf") << "x";
  WorkerClient client(options());
  const json result = client.call("worker.folder", {{"path", folder.string()}}).result;
  EXPECT_EQ(result["path"], folder.string());
  EXPECT_EQ(result["above"], folder.parent_path().string());
  EXPECT_EQ(result["entries"], json({{{"name", "deeper"}, {"folder", true}},
                                     {{"name", "model.gguf"}, {"folder", false}}}));
  fs::remove_all(folder);
  EXPECT_EQ(code_of(client, "worker.folder", {{"path", folder.string()}}), "bad_input");
  EXPECT_EQ(client.call("worker.folder", json::object()).result["path"],
            fs::current_path().string());
}

TEST(Server, ErrorsHaveTheirCodesAndTheWorkerLives) {
  WorkerClient client(options());
  EXPECT_EQ(code_of(client, "no.such", json::object()), "bad_usage");
  EXPECT_EQ(code_of(client, "worker.sleep", json::array()), "bad_usage");
  EXPECT_EQ(code_of(client, "worker.sleep", {{"seconds", "long"}}), "bad_usage");
  EXPECT_EQ(code_of(client, "worker.misbehave", {{"how", "throw"}}), "internal");
  EXPECT_EQ(code_of(client, "worker.sleep", {{"seconds", 0}}), "done");
}

TEST(Row21, OutOfMemoryLeavesTheWorkerAlive) {
  WorkerClient client(options());
  EXPECT_EQ(code_of(client, "worker.misbehave", {{"how", "memory"}}), "out_of_memory");
  EXPECT_EQ(code_of(client, "worker.sleep", {{"seconds", 0}}), "done");
}

TEST(Server, EchoesTensorsInlineAndAsMemoryFiles) {
  for (bool relayed : {false, true}) {
    WorkerClient client(options(relayed));
    protocol::CallOptions call;
    call.tensors = {
        protocol::TensorRef::own<double>("x", {1 << 20}, std::vector<double>(1 << 20, 2.5))};
    const auto reply = client.call("worker.echo", {{"a", 1}}, call);
    EXPECT_EQ(reply.tensor("x").values<double>().back(), 2.5);
  }
}

TEST(Server, CancelsTheRunningAndTheQueued) {
  WorkerClient client(options());
  Ended running, queued, after;
  const auto first = client.submit("worker.sleep", {{"seconds", 30}}, running.callbacks());
  const auto second = client.submit("worker.sleep", {{"seconds", 30}}, queued.callbacks());
  client.submit("worker.sleep", {{"seconds", 0}}, after.callbacks());
  client.cancel(second);
  EXPECT_TRUE(drain_until(client, [&] { return !queued.how.empty(); }));
  EXPECT_EQ(queued.how, "cancelled");
  EXPECT_EQ(running.how, "");
  client.cancel(first);
  EXPECT_TRUE(drain_until(client, [&] { return !after.how.empty(); }));
  EXPECT_EQ(running.how, "cancelled");
  EXPECT_EQ(after.how, "done");
}

// The cancel may meet its request in the queue, on its way out of it, or running.
TEST(Server, CancelIsNeverLost) {
  WorkerClient client(options());
  client.call("worker.sleep", {{"seconds", 0}});
  for (int i = 0; i < 200; ++i) {
    Ended ended;
    const auto id = client.submit("worker.sleep", {{"seconds", 30}}, ended.callbacks());
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i * 2));
    client.cancel(id);
    ASSERT_TRUE(drain_until(client, [&] { return !ended.how.empty(); })) << i;
    EXPECT_EQ(ended.how, "cancelled");
  }
}

TEST(Server, ANewerRequestReplacesTheQueuedOneWithItsTag) {
  WorkerClient client(options());
  Ended blocking, old, other, fresh;
  // Queued itself, the first would be the one that is replaced.
  bool running = false;
  Callbacks first = blocking.callbacks();
  first.on_progress = [&](auto&&...) { running = true; };
  const auto block = client.submit("worker.sleep", {{"seconds", 30}}, first, {"map", {}});
  ASSERT_TRUE(drain_until(client, [&] { return running; }));
  client.submit("worker.sleep", {{"seconds", 30}}, old.callbacks(), {"map", {}});
  client.submit("worker.sleep", {{"seconds", 0}}, other.callbacks(), {"heads", {}});
  client.submit("worker.sleep", {{"seconds", 0}}, fresh.callbacks(), {"map", {}});
  EXPECT_TRUE(drain_until(client, [&] { return !old.how.empty(); }));
  EXPECT_EQ(old.how, "cancelled");
  EXPECT_EQ(old.message, "A newer request replaced this one");
  client.cancel(block);
  EXPECT_TRUE(drain_until(client, [&] { return !other.how.empty(); }));
  EXPECT_EQ(fresh.how, "done") << "the newer one takes the older one's place";
}

TEST(Server, ReportsProgressNotTooOften) {
  WorkerClient client(options());
  int progress = 0;
  double last = -1;
  protocol::CallOptions call;
  call.on_progress = [&](double fraction, const std::string& text) {
    ++progress;
    EXPECT_GT(fraction, last);
    EXPECT_EQ(text, "sleeping");
    last = fraction;
  };
  const auto start = Clock::now();
  client.call("worker.sleep", {{"seconds", 0.5}}, call);
  // One every 50 ms at most, however slow the machine is.
  EXPECT_GE(progress, 2);
  EXPECT_LE(progress, (Clock::now() - start) / milliseconds(50) + 1);
}

TEST(Server, AStrayPrintBreaksNoFrame) {
  WorkerClient client(options());
  EXPECT_EQ(code_of(client, "worker.misbehave", {{"how", "print"}}), "done");
  EXPECT_EQ(code_of(client, "worker.sleep", {{"seconds", 0}}), "done");
  EXPECT_TRUE(drain_until(client, [&] { return !client.stderr_tail().empty(); }));
  EXPECT_EQ(client.stderr_tail().back(), "a library says hello");
}

TEST(Server, HeartbeatsComeWhileItComputes) {
  auto impatient = options();
  impatient.command.argv.push_back("100");
  impatient.time_limits.silence = milliseconds(500);
  WorkerClient client(impatient);
  EXPECT_EQ(code_of(client, "worker.misbehave", {{"how", "stuck"}, {"seconds", 1.2}}), "done");

  WorkerClient unheard(impatient);
  unheard.start();
  ASSERT_TRUE(drain_until(unheard, [&] { return unheard.process_id() > 0; }));
  ::kill(unheard.process_id(), SIGSTOP);
  EXPECT_TRUE(drain_until(unheard, [&] { return unheard.state() == protocol::WorkerState::dead; }));
}

TEST(Row22, AFatalErrorIsTheLastFrame) {
  WorkerClient client(options());
  EXPECT_EQ(code_of(client, "worker.crash", {{"how", "fatal"}}), "worker_died");
  const auto death = client.death();
  ASSERT_TRUE(death && death->last_words);
  EXPECT_EQ(death->exit_status, fatal_status);
  EXPECT_EQ(death->last_words->message, "the device reported an illegal memory access");
  client.restart();
  EXPECT_EQ(code_of(client, "worker.sleep", {{"seconds", 0}}), "done");
}

TEST(Row24, EveryWayToDieIsTold) {
  const std::vector<std::pair<std::string, std::string>> ways = {{"kill", "was killed by SIGKILL"},
                                                                 {"abort", "was killed by SIGABRT"},
                                                                 {"segv", "was killed by SIGSEGV"},
                                                                 {"exit", "left with status 1"}};
  WorkerClient client(options());
  for (const auto& [how, told] : ways) {
    EXPECT_EQ(code_of(client, "worker.crash", {{"how", how}}), "worker_died");
    EXPECT_EQ(client.death()->how, told);
    client.restart();
  }
  EXPECT_EQ(code_of(client, "worker.sleep", {{"seconds", 0}}), "done");
}

// ---- Row 25: the end of the worker's input --------------------------------------------------

// A worker leaves within 10 s of its input's end, whatever it does then.
void expect_gone_after_input(const std::string& method, const json& params) {
  protocol::ChildProcess child({PHASESCOPE_SERVING_WORKER});
  auto socket = child.take_socket();
  formats::UniqueFd out(::dup(socket.get()));
  auto channel = std::make_unique<protocol::Channel>(std::move(socket), std::move(out), false);
  channel->handshake({}, seconds(5));
  channel->send({protocol::FrameType::request, 1, {{"method", method}, {"params", params}}, {}});
  std::this_thread::sleep_for(milliseconds(100));
  channel.reset();
  const auto end = child.wait(seconds(10));
  EXPECT_TRUE(end && end->exit_status == 0) << method;
}

TEST(Row25, GoneSoonAfterItsInputEnds) {
  expect_gone_after_input("worker.info", json::object());
  expect_gone_after_input("worker.sleep", {{"seconds", 60}});
  expect_gone_after_input("worker.misbehave", {{"how", "stuck"}, {"seconds", 60}});
}

// A process that has ended but that nobody has waited for does not run.
bool runs(int process) {
  std::string id, name, state;
  std::ifstream("/proc/" + std::to_string(process) + "/stat") >> id >> name >> state;
  return !state.empty() && state != "Z";
}

// A window, a process of its own, starts a worker by `start`, which says its id and never returns,
// and is killed: the worker is gone within 10 s.
template <class Start>
void expect_gone_with_its_window(const Start& start) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t window = ::fork();
  if (window == 0) {
    start([&](int worker) {
      if (::write(told[1], &worker, sizeof worker) != sizeof worker) ::_exit(1);
      while (true) ::pause();
    });
  }
  int worker = 0;
  ASSERT_EQ(::read(told[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  EXPECT_TRUE(runs(worker));
  ::kill(window, SIGKILL);
  ::waitpid(window, nullptr, 0);
  const auto until = Clock::now() + seconds(10);
  while (runs(worker) && Clock::now() < until) std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(runs(worker));
  if (runs(worker)) ::kill(worker, SIGKILL);
  ::close(told[0]);
  ::close(told[1]);
}

TEST(Row25, GoneWhenTheWindowIsKilled) {
  expect_gone_with_its_window([](const auto& say) {
    WorkerClient client(options());
    client.submit("worker.sleep", {{"seconds", 60}}, {});
    while (client.state() != protocol::WorkerState::ready) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    say(client.process_id());
  });
}

// A program that is still being loaded knows of no window: it is ended all the same.
TEST(Row25, GoneWhenTheWindowIsKilledBeforeItIsLoaded) {
  expect_gone_with_its_window([](const auto& say) {
    const protocol::ChildProcess silent({"sleep", "60"});
    say(silent.id());
  });
}

TEST(Spawn, AProgramThatIsNotThereIsNamed) {
  try {
    const protocol::ChildProcess child({"/no/such/program"});
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("/no/such/program"), std::string::npos);
  }
}

// ---- Parts ----------------------------------------------------------------------------------

TEST(Failure, ExceptionsHaveTheirCodes) {
  const auto of = [](auto exception) {
    return describe_failure(std::make_exception_ptr(exception), {});
  };
  const auto known =
      of(formats::Error("bad_input", "No header", "a.safetensors, byte 8", "See docs"));
  EXPECT_EQ(known.error,
            (ErrorInfo{"bad_input", "No header", "a.safetensors, byte 8", "See docs"}));
  EXPECT_EQ(of(std::bad_alloc()).error.code, "out_of_memory");
  EXPECT_EQ(of(protocol::Cancelled()).error.code, "cancelled");
  EXPECT_EQ(of(std::invalid_argument("[rope] odd head_dim")).error.code, "bad_input");
  EXPECT_EQ(of(std::runtime_error("x")).error.code, "internal");
  EXPECT_EQ(of(42).error.code, "internal");
  EXPECT_TRUE(of(FatalError("x")).fatal);

  const Translator all = [](std::exception_ptr) {
    return std::optional(Failure{{"device_unavailable", "", "", ""}, false});
  };
  EXPECT_EQ(describe_failure(std::make_exception_ptr(1), {all}).error.code, "device_unavailable");
}

TEST(RequestQueue, HasAnEnd) {
  RequestQueue queue;
  for (std::size_t i = 0; i < RequestQueue::longest; ++i) {
    EXPECT_EQ(queue.push({i + 1, "m", {}, "", {}}).outcome, RequestQueue::Pushed::queued);
  }
  EXPECT_EQ(queue.push({9999, "m", {}, "", {}}).outcome, RequestQueue::Pushed::full);
  EXPECT_TRUE(queue.remove(5));
  EXPECT_FALSE(queue.remove(5));
  queue.close();
  EXPECT_FALSE(queue.pop());
}

}  // namespace
}  // namespace phasescope::worker
