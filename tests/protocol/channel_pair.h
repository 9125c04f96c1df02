// Two channels that are connected, for tests.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>

#include "protocol/channel.h"

namespace phasescope::protocol {

struct FdPair {
  formats::UniqueFd in, out;
};

inline std::pair<FdPair, FdPair> socket_ends() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  return {
      FdPair{formats::UniqueFd(ends[0]), formats::UniqueFd(::fcntl(ends[0], F_DUPFD_CLOEXEC, 3))},
      FdPair{formats::UniqueFd(ends[1]), formats::UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3))}};
}

inline std::pair<FdPair, FdPair> pipe_ends() {
  ::signal(SIGPIPE, SIG_IGN);
  int there[2], back[2];
  if (::pipe2(there, O_CLOEXEC) != 0 || ::pipe2(back, O_CLOEXEC) != 0) return {};
  return {FdPair{formats::UniqueFd(back[0]), formats::UniqueFd(there[1])},
          FdPair{formats::UniqueFd(there[0]), formats::UniqueFd(back[1])}};
}

inline std::unique_ptr<Channel> make_channel(FdPair ends, bool memory, TimeLimits times = {}) {
  return std::make_unique<Channel>(std::move(ends.in), std::move(ends.out), memory, FrameLimits{},
                                   times);
}

struct ChannelPair {
  std::unique_ptr<Channel> near, far;

  ChannelPair(std::pair<FdPair, FdPair> ends, bool near_memory, bool far_memory,
              TimeLimits times = {})
      : near(make_channel(std::move(ends.first), near_memory, times)),
        far(make_channel(std::move(ends.second), far_memory, times)) {
    auto other = std::async(std::launch::async, [this] { return far->handshake({}, seconds(10)); });
    near->handshake({}, seconds(10));
    other.get();
  }
  static std::chrono::milliseconds seconds(int count) { return std::chrono::seconds(count); }
};

}  // namespace phasescope::protocol
