// Starting other programs: the only place that forks. Where one cannot be started, all of these
// throw std::system_error with what exec said.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/unique_fd.h"

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

// Runs a program with our standard descriptors, and waits for its end.
ProcessEnd run_program(const std::vector<std::string>& argv);

// What a program writes that reads `input`. Its standard error is ours; `environment`
// ("NAME=value") holds what it gets of names that we have none of.
struct FilterResult {
  ProcessEnd end;
  std::string output;
};
FilterResult run_filter(const std::vector<std::string>& argv, std::string_view input,
                        const std::vector<std::string>& environment = {});

// Starts a program that outlives this one: a session of its own, a parent that is gone, standard
// input from /dev/null, both outputs appended to `log`, no other descriptor inherited. It yields
// the processor to everything else: niceness 10 and SCHED_BATCH, or what this one yields already.
void start_detached(const std::vector<std::string>& argv, const std::string& log);

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
  formats::UniqueFd take_socket() { return std::move(socket_); }
  formats::UniqueFd take_stderr() { return std::move(stderr_); }

  // How it ended, when it has within `limit`.
  std::optional<ProcessEnd> wait(std::chrono::milliseconds limit);
  // SIGTERM to its group, SIGKILL after `grace`. One that even that does not end at once is given
  // up: its end is then unknown.
  ProcessEnd end(std::chrono::milliseconds grace);

 private:
  void signal_group(int signal) const;

  pid_t id_ = 0;
  formats::UniqueFd socket_;
  formats::UniqueFd stderr_;
  std::optional<ProcessEnd> ended_;
};

}  // namespace phasescope::protocol
