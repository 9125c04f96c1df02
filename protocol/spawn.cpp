#include "protocol/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

namespace phasescope::protocol {

namespace {

constexpr std::chrono::seconds kKilled{3};  // until one is seen to be gone
constexpr int kNiceness = 10;               // of what outlives us, as nice(1) has it

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
formats::UniqueFd above_standard(formats::UniqueFd fd) {
  if (fd.get() > 2) return fd;
  return formats::UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
}

struct Ends {
  formats::UniqueFd ours, theirs;
};

Ends make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_errno(errno, "socket pair");
  }
  return {above_standard(formats::UniqueFd(ends[0])), above_standard(formats::UniqueFd(ends[1]))};
}

Ends make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  return {above_standard(formats::UniqueFd(ends[0])), above_standard(formats::UniqueFd(ends[1]))};
}

ProcessEnd from_status(int status) {
  ProcessEnd end;
  if (WIFEXITED(status)) end.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

ProcessEnd wait_for(pid_t id) {
  int status = 0;
  while (::waitpid(id, &status, 0) < 0) {
    if (errno != EINTR) return {};
  }
  return from_status(status);
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

// With us: in our process group, for as long as we live. Apart: in a group of its own, for as long
// as we live. Outliving us: in a session of its own.
enum class Place { with_us, apart, outliving_us };

// Descriptors above 2 for the child's standard ones; -1: ours.
struct Standard {
  int in = -1, out = -1, error = -1;
};

// To whoever waits for an answer: what outlives us takes the time that others leave, in long
// slices. A kernel that groups processes by session (sched_autogroup) goes by the group's own
// niceness. Whoever started us to yield more than that (nice 19, SCHED_IDLE) is obeyed. What is
// refused is left: nothing depends on it but how soon others run.
void yield_to_others() {
  const int niceness = std::max(kNiceness, ::getpriority(PRIO_PROCESS, 0));
  ::setpriority(PRIO_PROCESS, 0, niceness);
  const sched_param none{};
  if (::sched_getscheduler(0) == SCHED_OTHER) ::sched_setscheduler(0, SCHED_BATCH, &none);
  const formats::UniqueFd group(::open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC));
  std::array<char, 8> words{};  // and no string: nothing is allocated between fork and exec
  const char* end = std::to_chars(words.data(), words.data() + words.size(), niceness).ptr;
  [[maybe_unused]] const ssize_t written =
      ::write(group.get(), words.data(), static_cast<std::size_t>(end - words.data()));
}

// Leaves the session that we are in, and the process that waits for us.
void leave_parent(int report) {
  ::setsid();
  const pid_t id = ::fork();
  if (id < 0) report_and_exit(report);
  if (id > 0) ::_exit(0);
  yield_to_others();
}

// `report` closes by itself when exec succeeds.
[[noreturn]] void become(char* const* argv, char* const* environment, const Standard& fds,
                         Place place, int report, pid_t parent) {
  reset_signals();
  if (place == Place::outliving_us) leave_parent(report);
  if (place != Place::outliving_us) die_with(parent);
  if (place == Place::apart) ::setpgid(0, 0);
  const int given[] = {fds.in, fds.out, fds.error};
  for (int standard = 0; standard < 3; ++standard) {
    if (given[standard] >= 0 && ::dup2(given[standard], standard) < 0) report_and_exit(report);
  }
  if (report != 3 && ::dup3(report, 3, O_CLOEXEC) < 0) report_and_exit(report);
  ::closefrom(4);
  ::execvpe(argv[0], argv, environment);
  report_and_exit(3);
}

// Ours, and before it what is given where we have none of that name.
std::vector<char*> environment_with(const std::vector<std::string>& defaults) {
  std::vector<char*> all;
  for (const std::string& variable : defaults) {
    const std::string name = variable.substr(0, variable.find('='));
    if (std::getenv(name.c_str()) == nullptr) all.push_back(const_cast<char*>(variable.c_str()));
  }
  for (char** variable = environ; *variable != nullptr; ++variable) all.push_back(*variable);
  all.push_back(nullptr);
  return all;
}

// The process id (of one that outlives us: of nothing that is still there); throws what exec said.
pid_t start(const std::vector<std::string>& argv, const Standard& standard, Place place,
            const std::vector<std::string>& environment = {}) {
  auto report = make_pipe();
  const auto words = pointers(argv);
  const auto variables = environment_with(environment);
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id == 0) {
    become(words.data(), variables.data(), standard, place, report.theirs.get(), parent);
  }
  if (id < 0) throw_errno(errno, "fork");
  report.theirs.reset();
  int failed = 0;
  ssize_t got = 0;
  do {
    got = ::read(report.ours.get(), &failed, sizeof failed);
  } while (got < 0 && errno == EINTR);
  if (place == Place::outliving_us || got == sizeof failed) wait_for(id);
  if (got == sizeof failed) throw_errno(failed, argv[0]);
  return id;
}

formats::UniqueFd open_above_standard(const std::string& path, int flags) {
  formats::UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!fd) throw_errno(errno, path);
  return above_standard(std::move(fd));
}

// Both directions of a filter's socket are served at once, so that neither side waits for the
// other.
std::string exchange(int socket, std::string_view input) {
  std::string output;
  std::array<char, 65536> piece;
  bool sending = true;
  while (true) {
    if (sending && input.empty()) ::shutdown(socket, SHUT_WR), sending = false;
    pollfd ready{socket, static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), 0};
    if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return output;
    if (sending && (ready.revents & POLLOUT)) {
      // A filter that ended early reads no more: its status says why.
      const ssize_t sent = ::send(socket, input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) input.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) input = {};
    }
    if ((ready.revents & ~POLLOUT) == 0) continue;
    const ssize_t got = ::recv(socket, piece.data(), piece.size(), MSG_DONTWAIT);
    if (got > 0) output.append(piece.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return output;
  }
}

}  // namespace

ProcessEnd run_program(const std::vector<std::string>& argv) {
  return wait_for(start(argv, {}, Place::with_us));
}

FilterResult run_filter(const std::vector<std::string>& argv, std::string_view input,
                        const std::vector<std::string>& environment) {
  auto ends = make_socket_pair();
  const int theirs = ends.theirs.get();
  const pid_t id = start(argv, {.in = theirs, .out = theirs}, Place::with_us, environment);
  ends.theirs.reset();
  FilterResult result;
  result.output = exchange(ends.ours.get(), input);
  result.end = wait_for(id);
  return result;
}

void start_detached(const std::vector<std::string>& argv, const std::string& log) {
  const formats::UniqueFd input = open_above_standard("/dev/null", O_RDONLY);
  const formats::UniqueFd output = open_above_standard(log, O_WRONLY | O_CREAT | O_APPEND);
  start(argv, {input.get(), output.get(), output.get()}, Place::outliving_us);
}

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
  const int theirs = frames.theirs.get();
  id_ = start(argv, {theirs, theirs, errors.theirs.get()}, Place::apart);
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
  // One in an uninterruptible wait (a lost network disk, a GPU driver) ends when that does; nobody
  // waits for it here.
  return wait(kKilled).value_or(ProcessEnd{});
}

}  // namespace phasescope::protocol
