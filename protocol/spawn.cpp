#include "protocol/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>

namespace phasescope::protocol {

namespace {

[[noreturn]] void throw_errno(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::vector<char*> pointers(const std::vector<std::string>& argv) {
  std::vector<char*> result;
  for (const auto& text : argv) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Away from 0, 1 and 2, which the child's own descriptors are put on.
UniqueFd above_standard(UniqueFd fd) {
  if (fd.get() > 2) return fd;
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
}

struct Ends {
  UniqueFd ours, theirs;
};

Ends make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw_errno(errno, "socket pair");
  return {above_standard(UniqueFd(ends[0])), above_standard(UniqueFd(ends[1]))};
}

Ends make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  return {above_standard(UniqueFd(ends[0])), above_standard(UniqueFd(ends[1]))};
}

class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void set_standard(int in, int out, int error) {
    posix_spawn_file_actions_adddup2(&actions_, in, 0);
    posix_spawn_file_actions_adddup2(&actions_, out, 1);
    posix_spawn_file_actions_adddup2(&actions_, error, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
  }
  void reset_signals_and_group() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_,
        static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  }
  pid_t run(const std::vector<std::string>& argv) {
    pid_t id = 0;
    const int error = posix_spawnp(&id, argv.at(0).c_str(), &actions_, &attributes_,
                                   pointers(argv).data(), environ);
    if (error != 0) throw_errno(error, argv[0]);
    return id;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

ProcessEnd from_status(int status) {
  ProcessEnd end;
  if (WIFEXITED(status)) end.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

}  // namespace

std::string program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

std::string describe(const ProcessEnd& end) {
  if (end.exit_status) return "left with status " + std::to_string(*end.exit_status);
  if (!end.signal) return "is gone";
  const char* name = ::sigabbrev_np(*end.signal);
  return "was killed by " +
         (name ? "SIG" + std::string(name) : "signal " + std::to_string(*end.signal));
}

ChildProcess::ChildProcess(const std::vector<std::string>& argv) {
  auto frames = make_socket_pair();
  auto errors = make_pipe();
  SpawnPlan plan;
  plan.set_standard(frames.theirs.get(), frames.theirs.get(), errors.theirs.get());
  plan.reset_signals_and_group();
  id_ = plan.run(argv);
  socket_ = std::move(frames.ours);
  stderr_ = std::move(errors.ours);
}

ChildProcess::~ChildProcess() {
  if (!ended_) end(std::chrono::milliseconds(0));
}

std::optional<ProcessEnd> ChildProcess::wait(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!ended_) {
    int status = 0;
    const pid_t id = ::waitpid(id_, &status, WNOHANG);
    if (id == id_) ended_ = from_status(status);
    if (id < 0 && errno != EINTR) ended_ = ProcessEnd{};
    if (ended_ || std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return ended_;
}

void ChildProcess::signal_group(int signal) const { ::kill(-id_, signal); }

ProcessEnd ChildProcess::end(std::chrono::milliseconds grace) {
  if (ended_) return *ended_;
  if (grace.count() > 0) {
    signal_group(SIGTERM);
    signal_group(SIGCONT);  // one that is stopped hears nothing else
    if (auto end = wait(grace)) return *end;
  }
  signal_group(SIGKILL);
  return wait(std::chrono::hours(1)).value_or(ProcessEnd{});
}

}  // namespace phasescope::protocol
