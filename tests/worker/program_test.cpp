// The program itself: what it says of itself, how it ends, what it makes of bad words.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "protocol/channel.h"
#include "protocol/client.h"
#include "protocol/spawn.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;
using protocol::RequestError;
using std::chrono::seconds;

protocol::ClientOptions options(std::vector<std::string> arguments = {}) {
  protocol::ClientOptions result;
  result.command.argv = {PHASESCOPE_WORKER_PROGRAM};
  for (auto& argument : arguments) result.command.argv.push_back(std::move(argument));
  return result;
}

protocol::ErrorInfo error_of(protocol::WorkerClient& client, const std::string& method,
                             const json& params) {
  try {
    client.call(method, params);
  } catch (const RequestError& error) {
    return error.info();
  }
  return {};
}

TEST(Program, SaysWhatItIsAndWhatItComputesOn) {
  protocol::WorkerClient client(options({"--threads", "1"}));
  const json info = client.call("worker.info", json::object()).result;
  EXPECT_EQ(info["threads"], 1);
  EXPECT_EQ(info["device"], "cpu");
  EXPECT_EQ(info["devices"][0], "cpu");
  EXPECT_FALSE(info["torch"].get<std::string>().empty());
  EXPECT_EQ(info["version"], client.worker_hello()->version);
  EXPECT_TRUE(info["torch_library"].get<std::string>().ends_with("/libtorch_cpu.so")) << info;
  EXPECT_TRUE(std::filesystem::exists(info["torch_library"].get<std::string>())) << info;
  EXPECT_TRUE(std::filesystem::exists(info["assets"].get<std::string>() + "/models")) << info;
}

// It is what a bug report about numbers needs most.
TEST(Program, SaysWhichInstructionsItRuns) {
  ::setenv("PHASESCOPE_SIMD", "scalar", 1);
  ::setenv("ATEN_CPU_CAPABILITY", "default", 1);
  protocol::WorkerClient client(options());
  const json info = client.call("worker.info", json::object()).result;
  ::unsetenv("PHASESCOPE_SIMD");
  ::unsetenv("ATEN_CPU_CAPABILITY");
  EXPECT_EQ(info["attention_code"], "scalar");
  EXPECT_EQ(info["torch_code"].get<std::string>().find("AVX2"), std::string::npos) << info;
  EXPECT_EQ(info["torch_code"].get<std::string>().find("AVX512"), std::string::npos) << info;
}

TEST(Program, InstructionsThatAreNotThereEndItWithASentence) {
  ::setenv("PHASESCOPE_SIMD", "nonsense", 1);
  protocol::WorkerClient client(options());
  std::string said;
  try {
    client.call("worker.info", json::object());
  } catch (const RequestError& error) {
    said = error.what();
  }
  ::unsetenv("PHASESCOPE_SIMD");
  EXPECT_NE(said.find("expected PHASESCOPE_SIMD to be one of"), std::string::npos) << said;
  EXPECT_EQ(said.find("SIG"), std::string::npos) << said;
}

TEST(Row23, NoGpuIsANoticeAndTheCpuIsUsed) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  protocol::WorkerClient client(options());
  const json info = client.call("worker.info", json::object()).result;
  EXPECT_EQ(info["devices"], json({"cpu"}));
  EXPECT_NE(info["notice"].get<std::string>().find("the CPU is used"), std::string::npos);
  EXPECT_EQ(error_of(client, "models.list", json::object()).code, "");
  const auto error = error_of(client, "model.info", {{"model", "any"}, {"device", "cuda"}});
  EXPECT_EQ(error.code, "device_unavailable");
  EXPECT_EQ(error.where, "device");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

// A driver that is there and too old for anything (old_cuda_driver.cpp), found before any other.
TEST(Row23, AnOldDriverIsANoticeAndTheCpuIsUsed) {
  const char* before = ::getenv("LD_LIBRARY_PATH");
  const std::string path = before == nullptr ? "" : ":" + std::string(before);
  ::setenv("LD_LIBRARY_PATH", (std::string(PHASESCOPE_OLD_DRIVER) + path).c_str(), 1);
  protocol::WorkerClient client(options());
  const json info = client.call("worker.info", json::object()).result;
  EXPECT_EQ(info["devices"], json({"cpu"}));
  EXPECT_NE(info["notice"].get<std::string>().find("the CPU is used"), std::string::npos);
  EXPECT_EQ(error_of(client, "models.list", json::object()).code, "");
  EXPECT_EQ(error_of(client, "model.info", {{"model", "any"}, {"device", "cuda"}}).code,
            "device_unavailable");
  if (before == nullptr) {
    ::unsetenv("LD_LIBRARY_PATH");
  } else {
    ::setenv("LD_LIBRARY_PATH", path.c_str() + 1, 1);
  }
}

TEST(Program, RequestsThatAreNoneHaveTheirCodes) {
  protocol::WorkerClient client(options());
  EXPECT_EQ(error_of(client, "no.method", json::object()).code, "bad_usage");
  EXPECT_EQ(error_of(client, "model.info", json::object()).code, "bad_usage");
  EXPECT_EQ(error_of(client, "model.info", {{"model", "no such model"}}).code, "bad_input");
  EXPECT_EQ(error_of(client, "model.info", {{"model", "x"}, {"device", "tpu"}}).code, "bad_usage");
  EXPECT_EQ(error_of(client, "model.info", {{"model", "x"}, {"set", {"a"}}}).code, "bad_usage");
  EXPECT_EQ(error_of(client, "worker.crash", {{"how", "exit"}}).code, "bad_usage")
      << "test methods are not there unless asked for";
}

TEST(Program, BadWordsEndItWithStatusTwo) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--bogus"}, {"--threads", "many"}, {"--device"}, {"serve", "x"}}) {
    std::vector<std::string> argv = {PHASESCOPE_WORKER_PROGRAM};
    argv.insert(argv.end(), words.begin(), words.end());
    protocol::ChildProcess child(argv);
    const auto end = child.wait(seconds(60));
    EXPECT_TRUE(end && end->exit_status == 2) << words[0];
  }
}

// The process that this one has started.
pid_t only_child() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (!std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0]))) continue;
    std::ifstream file(entry.path() / "stat");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const std::size_t name = line.rfind(')');  // what stands in front may hold anything
    if (name == line.npos || line[name + 2] == 'Z') continue;
    if (std::stol(line.substr(name + 4)) == ::getpid()) return std::stoi(line);
  }
  return 0;
}

// Room for so much more than it has now.
void leave_room(pid_t pid, rlim_t bytes) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  rlim_t pages = 0;
  file >> pages;
  const rlimit limit{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + bytes, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(pid, RLIMIT_AS, &limit, nullptr), 0);
}

// reliability.md, row 21: memory that is not there, for a capture of 1 GB and for a pass over a
// text each of whose activations takes 46 MB.
TEST(Row21, ACaptureAndAPassWithoutMemoryLeaveTheWorkerAlive) {
  protocol::WorkerClient client(options({"--threads", "1"}));
  const json small = {{"model", "rope"}, {"input", {{"prompt", "to every thing"}}}};
  const json before = client.call("text.read", small).result["tokens"];
  ASSERT_FALSE(before.empty());
  const pid_t pid = only_child();
  ASSERT_GT(pid, 0);
  leave_room(pid, rlim_t{100} << 20);
  const auto long_text = [](std::size_t tokens) {
    return json{
        {"model", "rope"}, {"input", {{"prompt", std::string(tokens, 'a')}}}, {"length", tokens}};
  };
  json capture = long_text(8000);
  capture["what"] = {"attn"}, capture["layers"] = {0};
  for (const auto& [method, params] :
       {std::pair{"capture", capture}, std::pair{"text.read", long_text(60'000)}}) {
    const auto error = error_of(client, method, params);
    EXPECT_EQ(error.code, "out_of_memory") << method << ": " << error.message;
    for (const char* part : {"were wanted", "are free now"}) {
      EXPECT_NE(error.message.find(part), std::string::npos) << method << ": " << error.message;
    }
    EXPECT_NE(error.hint.find("a shorter text"), std::string::npos) << error.hint;
    EXPECT_EQ(client.call("text.read", small).result["tokens"], before) << method;
  }
  EXPECT_EQ(only_child(), pid);  // the same worker
}

// Bundled models are listed without opening any: what a worker has read is what is lost with it.
TEST(Row22, AModelIsReadAgainAfterADeath) {
  ::setenv("PHASESCOPE_TEST_HANDLERS", "1", 1);
  protocol::WorkerClient client(options());
  const json question = {{"model", "rope"}, {"input", {{"prompt", "to every thing"}}}};
  const json before = client.call("heads", question).result["rows"];
  ASSERT_FALSE(before.empty());
  EXPECT_EQ(error_of(client, "worker.crash", {{"how", "fatal"}}).code, "worker_died");
  EXPECT_EQ(client.death()->exit_status, 70);
  client.restart();
  EXPECT_EQ(client.call("heads", question).result["rows"], before);
  ::unsetenv("PHASESCOPE_TEST_HANDLERS");
}

// reliability.md, row 24: killed while it reads a model (a new worker has read none, and takes
// longer for it than the shortest of these times), it is told how it ended, and another one reads
// it.
TEST(Row24, KilledWhileItReadsAModelItIsToldAndAnotherReadsIt) {
  protocol::WorkerClient client(options({"--threads", "1"}));
  const json question = {{"model", "rope"}, {"input", {{"prompt", "to every thing"}}}};
  const json before = client.call("text.read", question).result["tokens"];
  int killed_in_it = 0;
  for (const int delay_ms : {0, 2, 10, 40}) {
    client.restart();
    client.call("worker.info", json::object());  // it is there, and has read nothing
    const pid_t pid = only_child();
    ASSERT_GT(pid, 0);
    std::thread killer([pid, delay_ms] {
      std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
      ::kill(pid, SIGKILL);
    });
    const auto error = error_of(client, "text.read", question);
    killer.join();
    if (error.code.empty()) continue;  // it was quicker
    ++killed_in_it;
    EXPECT_EQ(error.code, "worker_died") << error.message;
    ASSERT_TRUE(client.death());
    EXPECT_EQ(client.death()->signal, SIGKILL);
  }
  EXPECT_GE(killed_in_it, 1);
  client.restart();
  EXPECT_EQ(client.call("text.read", question).result["tokens"], before);
}

TEST(Row25, TheProgramLeavesWhenItsInputEnds) {
  protocol::ChildProcess child({PHASESCOPE_WORKER_PROGRAM});
  auto socket = child.take_socket();
  formats::UniqueFd out(::dup(socket.get()));
  auto channel = std::make_unique<protocol::Channel>(std::move(socket), std::move(out), false);
  channel->handshake({}, seconds(60));
  channel.reset();
  const auto end = child.wait(seconds(10));
  EXPECT_TRUE(end && end->exit_status == 0);
}

}  // namespace
}  // namespace phasescope::worker
