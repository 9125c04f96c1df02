#include "protocol/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
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

// From here to exec only system calls: the child of a process with threads may take no lock.

[[noreturn]] void report_and_exit(int report) {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &error, sizeof error);
  ::_exit(127);
}

// The kernel ends the child with the thread that started it. That must stand before exec: a program
// that is still being loaded, its libraries read from a cold disk, cannot see to it by itself.
void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // it has died already
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

struct Standard {
  int in_out, error, report;  // report closes by itself when exec succeeds
};

[[noreturn]] void become(char* const* argv, const Standard& fds, pid_t parent) {
  reset_signals();
  die_with(parent);
  ::setpgid(0, 0);
  if (::dup2(fds.in_out, 0) < 0 || ::dup2(fds.in_out, 1) < 0 || ::dup2(fds.error, 2) < 0)
    report_and_exit(fds.report);
  if (fds.report != 3 && ::dup3(fds.report, 3, O_CLOEXEC) < 0) report_and_exit(fds.report);
  ::closefrom(4);
  ::execvp(argv[0], argv);
  report_and_exit(3);
}

// The process id; throws what exec said.
pid_t start(const std::vector<std::string>& argv, int in_out, int error) {
  auto report = make_pipe();
  const auto words = pointers(argv);
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id == 0) become(words.data(), {in_out, error, report.theirs.get()}, parent);
  if (id < 0) throw_errno(errno, "fork");
  report.theirs.reset();
  int failed = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.ours.get(), &failed, sizeof failed);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof failed) return id;
  ::waitpid(id, nullptr, 0);
  throw_errno(failed, argv[0]);
}

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
  id_ = start(argv, frames.theirs.get(), errors.theirs.get());
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
