#pragma once

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace phasescope::training {

// Everything the tests start has a time limit, so that nothing can hang.
inline bool within(double seconds, const std::function<bool()>& holds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// What such a process has written; empty where there is no file.
inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Processes of a test, which do not outlive it.
class StartedProcesses {
 public:
  StartedProcesses() = default;
  StartedProcesses(const StartedProcesses&) = delete;
  StartedProcesses& operator=(const StartedProcesses&) = delete;
  ~StartedProcesses() {
    for (const pid_t id : running_) ::kill(id, SIGKILL), ::waitpid(id, nullptr, 0);
  }

  void add(pid_t id) { running_.push_back(id); }

  // Its exit status; -1 where it has not ended in time, or was killed.
  int end_of(pid_t id, double seconds) {
    int status = 0;
    if (!within(seconds, [&] { return ::waitpid(id, &status, WNOHANG) == id; })) return -1;
    std::erase(running_, id);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  std::vector<pid_t> running_;
};

}  // namespace phasescope::training
