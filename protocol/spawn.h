// Starting a program that speaks frames.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/unique_fd.h"

namespace phasescope::protocol {

// The folder of the running program, found by /proc/self/exe.
std::string program_folder();

// How a process ended.
struct ProcessEnd {
  std::optional<int> exit_status;
  std::optional<int> signal;
};
// "left with status 1", "was killed by SIGKILL".
std::string describe(const ProcessEnd& end);

// A child whose standard input and output are one end of a unix socket pair, and whose standard
// error is a pipe. It inherits no other descriptor, stands in a process group of its own (Ctrl-C in
// a terminal is ours to handle), has default signal handling, and gets SIGTERM when the thread that
// made this object ends, however that ends.
class ChildProcess {
 public:
  // The first of argv is looked up in PATH when it has no slash. Throws std::system_error.
  explicit ChildProcess(const std::vector<std::string>& argv);
  // Kills it when it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  UniqueFd take_socket() { return std::move(socket_); }
  UniqueFd take_stderr() { return std::move(stderr_); }

  // How it ended, when it has within `limit`.
  std::optional<ProcessEnd> wait(std::chrono::milliseconds limit);
  // SIGTERM to its group, SIGKILL after `grace`.
  ProcessEnd end(std::chrono::milliseconds grace);

 private:
  void signal_group(int signal) const;

  pid_t id_ = 0;
  UniqueFd socket_;
  UniqueFd stderr_;
  std::optional<ProcessEnd> ended_;
};

}  // namespace phasescope::protocol
