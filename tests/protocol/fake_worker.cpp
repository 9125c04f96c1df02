// A worker for the tests of the client: fake_worker MODE. It answers a few methods of its own and
// can be everything a far side may be: silent, of another version, talkative, dead.

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "formats/unique_fd.h"
#include "protocol/channel.h"
#include "protocol/error_info.h"

namespace {

namespace formats = phasescope::formats;
using namespace phasescope::protocol;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Descriptors above standard error that came from the parent.
int inherited_files() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const auto* entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd > 2 && fd != ::dirfd(folder)) ++count;
  }
  ::closedir(folder);
  return count;
}

void die(const json& params) {
  // Ended as ssh ends its own lines.
  for (int line = 0; line < params.value("lines", 0); ++line) {
    std::cerr << "line " << line << "\r\n";
  }
  std::cerr << std::flush;
  if (params.contains("status")) ::_exit(params["status"].get<int>());
  ::raise(params.value("signal", SIGKILL));
}

Frame wait_for_cancel(Channel& channel, const Frame& request) {
  while (true) {
    const auto frame = channel.receive(seconds(1));
    if (!frame || frame->type != FrameType::cancel) continue;
    const ErrorInfo error{"cancelled", "The request was cancelled", "", ""};
    return {FrameType::error, request.id, error, {}};
  }
}

void answer(Channel& channel, const Frame& request, int inherited) {
  const auto method = request.header.at("method").get<std::string>();
  const auto& params = request.header.at("params");
  if (method == "die") die(params);
  if (method == "fatal") {
    const ErrorInfo error{"internal", "an illegal memory access", "", ""};
    channel.send({FrameType::fatal, request.id, error, {}});
    ::_exit(70);
  }
  if (method == "stuck") {
    ::signal(SIGTERM, SIG_IGN);
    while (true) ::pause();
  }
  if (method == "wait") return channel.send(wait_for_cancel(channel, request));
  if (method == "steps") {
    for (int i = 0; i < 100; ++i) {
      channel.send(
          {FrameType::progress, request.id, {{"fraction", i / 100.0}, {"text", "step"}}, {}});
    }
  }
  if (method == "inherited") {
    return channel.send({FrameType::result, request.id, {{"files", inherited}}, {}});
  }
  if (method == "fail") {
    const ErrorInfo error{"bad_input", "No such model", "models/x", "See models"};
    return channel.send({FrameType::error, request.id, error, {}});
  }
  channel.send({FrameType::result, request.id, params, request.tensors});
}

void serve(int inherited) {
  Channel channel(formats::UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, 3)),
                  formats::UniqueFd(::fcntl(1, F_DUPFD_CLOEXEC, 3)), true);
  Hello hello;
  hello.program = "fake-worker";
  hello.version = "0.1.0";
  hello.process_id = ::getpid();
  channel.handshake(hello, seconds(10));
  while (true) {
    const auto frame = channel.receive(seconds(1));
    if (frame && frame->type == FrameType::request) answer(channel, *frame, inherited);
    if (!frame) channel.try_heartbeat();
  }
}

// What a later version says of itself.
void say_later_version() {
  const json hello = {{"protocol", 2}, {"program", "phasescope-worker"}, {"version", "0.9.0"}};
  Channel channel(formats::UniqueFd(::dup(0)), formats::UniqueFd(::dup(1)), false);
  channel.send({FrameType::hello, 0, hello, {}});
  std::this_thread::sleep_for(milliseconds(200));
}

}  // namespace

int main(int argc, char** argv) {
  const int inherited = inherited_files();
  const std::string mode = argc > 1 ? argv[1] : "serve";
  if (mode == "denied") {
    std::cerr << "host key verification failed\nPermission denied (publickey).\n";
    return 255;
  }
  if (mode == "silent") std::this_thread::sleep_for(seconds(60));
  if (mode == "banner") std::cout << "Last login: yesterday\n" << std::flush;
  if (mode == "chatter") std::cout << std::string(70'000, '.') << std::flush;
  if (mode == "later") return say_later_version(), 0;
  try {
    serve(inherited);
  } catch (const ChannelClosed&) {
    return 0;
  }
}
