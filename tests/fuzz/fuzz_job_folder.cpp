// Bytes from anywhere as a file of a job's folder: the first byte says which. Whatever stands
// there, a job is listed, asked, resumed from a verified checkpoint or refused with one sentence.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/file_system.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temporary_folder.h"
#include "training/checkpoint.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"
#include "training/run_config.h"

namespace {

using namespace phasescope;
using namespace phasescope::training;
using phasescope::fuzz::allow_bad_input;
using phasescope::fuzz::require;

constexpr const char* kFiles[] = {job_file::config,  job_file::status, job_file::control,
                                  job_file::metrics, job_file::result, job_file::lock,
                                  job_file::log,     "manifest.json"};
constexpr unsigned kManifest = std::size(kFiles) - 1;

// A job with every file in order, of which one is replaced at a time.
class JobWithOneFile {
 public:
  JobWithOneFile() {
    folder_.file(job_file::status, R"({"name": "a", "kind": "train", "state": "running"})");
    folder_.file(job_file::config, "{}");
    std::filesystem::create_directories(checkpoint_folder(root(), 3));
    folder_.file("checkpoints/step-3/weights", "x");
  }
  void put(unsigned which, const std::string& content) {
    const std::string name =
        which == kManifest ? "checkpoints/step-3/manifest.json" : kFiles[which];
    if (placed_ != name && !placed_.empty()) std::filesystem::remove(folder_ / placed_);
    if (placed_ == job_file::status) {
      folder_.file(job_file::status, R"({"name": "a", "kind": "train", "state": "running"})");
    }
    placed_ = name;
    folder_.file(name, content);
  }
  void look() const {
    const protocol::JobStatus status = read_job(folder_.path(), CurveDetail::thinned);
    // Nobody here holds the lock; another machine may, says a lock.json.
    require(status.state != "running" || placed_ == job_file::lock);
    read_request(folder_.path());
    log_tail(folder_.path(), 3);
    std::int64_t last = -1;
    for (const auto& point : read_metrics(folder_ / job_file::metrics)) {
      require(point.step > last || last == -1);
      last = point.step;
    }
    const FoundCheckpoint found = find_newest_checkpoint(formats::real_file_system(), root());
    require(!found.newest || found.newest->step == 3);
  }
  void read_configuration() const {
    const auto config =
        run_config_from_json(formats::json_from_file(folder_ / job_file::config), "config.json");
    require(to_json(run_config_from_json(to_json(config), "again")) == to_json(config));
  }

 private:
  std::filesystem::path root() const { return folder_ / job_file::checkpoints; }
  TemporaryFolder folder_;
  std::string placed_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static JobWithOneFile job;
  const unsigned which = data[0] % std::size(kFiles);
  job.put(which, std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  allow_bad_input([] { job.look(); });
  if (which == 0) allow_bad_input([] { job.read_configuration(); });
  return 0;
}

std::string phasescope::fuzz::seed(std::mt19937& random) {
  static const std::string kManifestOfOne =
      R"({"step": 3, "files": {"weights": {"size": 1, "sha256": ")" + formats::sha256_hex("x") +
      R"("}}, "state": {}})";
  static const std::string kOwn[] = {
      R"({"model": {"layers": 2}, "encoding": {"key": "rope", "base": 1e4}, "train": {"steps": 9}})",
      R"({"name": "a", "kind": "train", "state": "running", "step": 3, "pid": 1, "message": "x"})",
      R"({"request": "pause"})",
      "{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2, \"loss\": null}\n",
      R"({"rows": []})",
      R"({"host": "a", "pid": 7, "since": "2026-01-01T00:00:00Z"})",
      "a line\nand another\n",
      kManifestOfOne};
  const unsigned which = random() % std::size(kFiles);
  const auto kept = case_of_tests(random, kFiles[which]);
  return static_cast<char>(which) + (kept ? *kept : kOwn[which]);
}
