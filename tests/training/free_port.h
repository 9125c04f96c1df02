#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace phasescope::training {

// A port of this machine at which nobody listens now.
inline std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket, plain, length), 0);
  EXPECT_EQ(::getsockname(socket, plain, &length), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

}  // namespace phasescope::training
