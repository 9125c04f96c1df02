#include "app/window/worker_build.h"

#include <signal.h>

#include <cerrno>
#include <fstream>

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kBetween = std::chrono::milliseconds(500);

std::optional<WorkerBuild> read_build(const fs::path& file) {
  std::ifstream in(file);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return protocol::from_json_form<WorkerBuild>(json);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// A build that was killed leaves its file as it was.
bool lives(std::int64_t pid) {
  return pid > 0 && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

std::string words_of(const WorkerBuild& build) {
  if (build.state == WorkerBuild::kFailed) {
    return "The worker could not be built; " + build.log + " has the reason";
  }
  std::string words = "The worker is being built";
  if (build.total > 0) {
    words += ", " + std::to_string(build.done) + " of " + std::to_string(build.total);
  } else if (!build.step.empty()) {
    words += ": " + build.step;
  }
  return words;
}

}  // namespace

bool WorkerWatch::awaited() {
  const auto now = Clock::now();
  if (!looked_ || now - *looked_ >= kBetween) look(), looked_ = now;
  return awaited_;
}

void WorkerWatch::look() {
  const auto build = read_build(worker_.parent_path().parent_path() / "worker_build.json");
  awaited_ = false;
  if (!build) return;
  // While it is built the program may be there in part.
  const bool building = build->state == WorkerBuild::kBuilding && lives(build->pid);
  std::error_code error;
  const bool failed = build->state == WorkerBuild::kFailed && !fs::exists(worker_, error);
  awaited_ = building || failed;
  if (awaited_) words_ = words_of(*build);
}

}  // namespace phasescope::app
