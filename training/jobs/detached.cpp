#include "training/jobs/detached.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "formats/error.h"

namespace phasescope::training {
namespace {

// Everything below runs between fork and exec in a process that may have threads: system calls
// alone, no memory.

void report_and_exit(int report) {
  const int error = errno;
  [[maybe_unused]] const auto written = write(report, &error, sizeof error);
  _exit(127);
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
}

void run_in_grandchild(const char* program, char* const* argv, const char* log, int report) {
  reset_signals();
  const int input = open("/dev/null", O_RDONLY);
  const int output = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (input < 0 || output < 0) report_and_exit(report);
  // The report's end closes by itself when exec succeeds; it moves out of the way of 0, 1, 2.
  const int moved = fcntl(report, F_DUPFD_CLOEXEC, 3);
  if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) report_and_exit(moved);
  for (int fd = 3; fd < 1024; ++fd) {
    if (fd != moved) close(fd);
  }
  execv(program, argv);
  report_and_exit(moved);
}

int read_report(int fd) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(fd, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

}  // namespace

void start_detached(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::filesystem::path& log) {
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    throw formats::internal_error(std::string("no pipe: ") + std::strerror(errno));
  }
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    const pid_t grandchild = fork();
    if (grandchild == 0) run_in_grandchild(words[0].c_str(), argv.data(), log.c_str(), report[1]);
    if (grandchild < 0) report_and_exit(report[1]);
    _exit(0);
  }
  close(report[1]);
  int error = child < 0 ? errno : read_report(report[0]);
  close(report[0]);
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (error != 0) {
    throw formats::internal_error(
        "the job's process cannot be started: " + std::string(std::strerror(error)),
        program.string());
  }
}

}  // namespace phasescope::training
