#pragma once
// What is known of a worker that `./dev run` is still building while the window is open already.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "protocol/json_form.h"

namespace phasescope::app {

// worker_build.json in the build folder, written anew at every step of the build.
struct WorkerBuild {
  static constexpr const char* kBuilding = "building";
  static constexpr const char* kFailed = "failed";
  std::string state;                 // kBuilding, kFailed or "done"
  std::int64_t done = 0, total = 0;  // steps of the build; 0 of 0 before it has counted them
  std::string step;                  // what is done now
  std::string log;                   // file with all that the build said
  std::int64_t pid = 0;              // of the program that builds
  template <class V>
  void fields(V& v) {
    v("state", state), v("done", done), v("total", total), v("step", step), v("log", log);
    v("pid", pid);
  }
};

// Looks for the worker's program and for its build, at most twice a second.
class WorkerWatch {
 public:
  // `worker`: the program; its build tells of itself in the folder above the program's.
  explicit WorkerWatch(std::filesystem::path worker) : worker_(std::move(worker)) {}

  // No worker is there yet, but one is being built, or its build has just failed.
  bool awaited();
  // "The worker is being built, 43 of 117"
  const std::string& words() const { return words_; }

 private:
  void look();

  std::filesystem::path worker_;
  std::optional<std::chrono::steady_clock::time_point> looked_;
  bool awaited_ = false;
  std::string words_;
};

}  // namespace phasescope::app
