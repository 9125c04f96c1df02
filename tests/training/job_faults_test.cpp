// The real trainer on a disk that fails, or loses its power, at each of a job's operations.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/faulty_file_system.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/checkpoint.h"
#include "training/jobs/eval_rows.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using formats::FaultyFileSystem;
using formats::UnsyncedData;

constexpr std::int64_t kSteps = 6, kBetweenSaves = 2;
// What everybody runs looks at one operation in so many, from another one with each fault; prime,
// so that no two faults look at the same places of a save.
constexpr std::int64_t kStride = 47;

class JobFaults : public testing::Test {
 protected:
  explicit JobFaults(const std::function<void(RunConfig&)>& change = {}) {
    config_ = small_run(folder_.path(), kSteps);
    config_.train.checkpoint_every = kBetweenSaves;
    config_.eval.every = 3;
    if (change) change(config_);
    write_job("whole");
    EXPECT_EQ(run_job(folder_.path() / "whole"), 0);
    losses_ = losses_of("whole");
    weights_ = weights_of("whole");
    EXPECT_EQ(losses_.size(), static_cast<std::size_t>(kSteps));
  }

  fs::path write_job(const std::string& name) {
    const fs::path dir = folder_.path() / name;
    fs::remove_all(dir);
    fs::create_directories(dir);
    std::ofstream(dir / "config.json") << to_json(config_);
    return dir;
  }

  std::vector<double> losses_of(const std::string& name) const {
    std::vector<double> losses;
    for (const auto& point : read_metrics(folder_.path() / name / "metrics.jsonl")) {
      losses.push_back(point.loss);
    }
    return losses;
  }

  // The bytes of the weights and moments after the last step.
  std::map<std::string, std::string> weights_of(const std::string& name) const {
    std::map<std::string, std::string> bytes;
    const fs::path last = checkpoint_folder(folder_.path() / name / "checkpoints", kSteps);
    for (const char* file : {"model.safetensors", "optimiser.safetensors"}) {
      bytes[file] = formats::real_file_system().read(last / file);
    }
    return bytes;
  }

  // Started once more where it did not end, the job is what an undisturbed one is, and leaves
  // nothing behind.
  void expect_whole_after_a_resume(FaultyFileSystem& files, const std::string& fault) {
    const fs::path dir = folder_.path() / "j";
    ASSERT_EQ(run_job(files, dir), 0) << fault << log_tail(dir, 20);
    EXPECT_EQ(read_job(dir, CurveDetail::none).state, "done") << fault;
    EXPECT_EQ(losses_of("j"), losses_) << fault;
    EXPECT_EQ(weights_of("j"), weights_) << fault;
    expect_the_best(files, dir, fault);
    for (const auto& entry : fs::recursive_directory_iterator(dir)) {
      EXPECT_NE(entry.path().extension(), ".tmp") << fault << ", " << entry.path();
    }
  }

  // The best checkpoint is that of the undisturbed job, and whole.
  void expect_the_best(FaultyFileSystem& files, const fs::path& dir, const std::string& fault) {
    const auto best = best_checkpoint(files, dir / "checkpoints");
    EXPECT_EQ(best, best_checkpoint(files, folder_.path() / "whole/checkpoints")) << fault;
    EXPECT_EQ(best.has_value(), config_.train.keep_best != "off") << fault;
    if (!best) return;
    EXPECT_NO_THROW(verify_checkpoint(files, checkpoint_folder(dir / "checkpoints", *best)))
        << fault;
  }

  // One fault in each job, at the operations from `first` in steps of `stride` until none is hit.
  void fail_at_each(int error, std::int64_t first, std::int64_t stride) {
    std::int64_t operation = first;
    for (bool hit = true; hit; operation += stride) {
      const fs::path dir = write_job("j");
      FaultyFileSystem files(dir);
      files.fail_at(operation, error);
      const int status = run_job(files, dir);
      hit = files.operations() >= operation;
      files.clear_faults();
      const std::string fault = "errno " + std::to_string(error) + " at operation " +
                                std::to_string(operation) + ", status " + std::to_string(status);
      // A job that says it is done has its last checkpoint.
      if (status == 0) {
        const auto newest = find_newest_checkpoint(files, dir / "checkpoints").newest;
        ASSERT_TRUE(newest) << fault;
        EXPECT_EQ(newest->step, kSteps) << fault;
        EXPECT_EQ(losses_of("j"), losses_) << fault;
      }
      expect_whole_after_a_resume(files, fault);
    }
    EXPECT_GT(operation - stride, kLeastOperations);
  }

  void lose_power_at_each(UnsyncedData fate, std::int64_t first, std::int64_t stride) {
    std::int64_t operation = first;
    for (bool lost = true; lost; operation += stride) {
      const fs::path dir = write_job("j");
      FaultyFileSystem files(dir);
      files.lose_power_after(operation);
      run_job(files, dir);
      lost = files.power_lost();
      files.restart(fate);
      expect_whole_after_a_resume(files, "power lost after operation " + std::to_string(operation) +
                                             ", fate " + std::to_string(static_cast<int>(fate)));
    }
    EXPECT_GT(operation - stride, kLeastOperations);
  }

  // Three saves of four files, each created, written, synced, and renamed with its folder.
  static constexpr std::int64_t kLeastOperations = 3 * 4 * 3;
  static constexpr UnsyncedData kFates[] = {UnsyncedData::lost, UnsyncedData::names_kept,
                                            UnsyncedData::half_written};

  TemporaryFolder folder_;
  RunConfig config_;
  std::vector<double> losses_;
  std::map<std::string, std::string> weights_;
};

// reliability.md, row 26.
TEST_F(JobFaults, Row26AFaultAnywhereCostsNoLoss) {
  fail_at_each(ENOSPC, 1, kStride);
  fail_at_each(EIO, 7, kStride);
  fail_at_each(EROFS, 13, kStride);
}

TEST_F(JobFaults, Row26LongAFaultAtEveryOperationCostsNoLoss) {
  for (const int error : {ENOSPC, EIO, EROFS}) fail_at_each(error, 1, 1);
}

// reliability.md, row 27.
TEST_F(JobFaults, Row27PowerLostAnywhereCostsNoLoss) {
  std::int64_t first = 3;
  for (const UnsyncedData fate : kFates) {
    lose_power_at_each(fate, first, kStride);
    first += 5;
  }
}

TEST_F(JobFaults, Row27LongPowerLostAfterEveryOperationCostsNoLoss) {
  for (const UnsyncedData fate : kFates) lose_power_at_each(fate, 1, 1);
}

// With a validation that is the best, and its checkpoint, at the first step and at others.
class JobFaultsOfTheBest : public JobFaults {
 protected:
  JobFaultsOfTheBest()
      : JobFaults([](RunConfig& c) { c.train.keep_best = "bits", c.eval.every = 1; }) {}
};

TEST_F(JobFaultsOfTheBest, Row27PowerLostAnywhereKeepsTheBestCheckpoint) {
  lose_power_at_each(UnsyncedData::half_written, 3, kStride);
  lose_power_at_each(UnsyncedData::lost, 11, kStride);
}

TEST_F(JobFaultsOfTheBest, Row27LongPowerLostAfterEveryOperationKeepsTheBestCheckpoint) {
  lose_power_at_each(UnsyncedData::lost, 1, 1);
}

// Changes a byte of the last checkpoint when it gets its name, as a disk that keeps something else
// than it was given.
class RottingDisk final : public FaultyFileSystem {
 public:
  using FaultyFileSystem::FaultyFileSystem;
  void rename(const fs::path& from, const fs::path& to) override {
    FaultyFileSystem::rename(from, to);
    if (to.filename() != "step-" + std::to_string(kSteps)) return;
    std::fstream file(to / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x5a');
  }
};

// A training whose last checkpoint does not verify is not done, and a resume repeats what is lost.
TEST_F(JobFaults, Risk8DoneMeansThatTheLastCheckpointVerifies) {
  const fs::path dir = write_job("j");
  RottingDisk rotting(dir);
  EXPECT_EQ(run_job(rotting, dir), 4);
  const auto status = read_job(dir, CurveDetail::none);
  EXPECT_EQ(status.state, "failed");
  EXPECT_EQ(status.code, "internal");  // which is status 4
  EXPECT_NE(status.message.find("the last checkpoint could not be saved"), std::string::npos)
      << status.message;
  FaultyFileSystem files(dir);
  expect_whole_after_a_resume(files, "a byte of the last checkpoint");
}

// A disk without room from the first operation: no state is written, and the job is not waited for.
TEST_F(JobFaults, Row26OnADiskThatWasFullFromTheStartItHasDied) {
  const fs::path dir = write_job("j");
  protocol::JobStatus queued;
  queued.kind = "train", queued.state = "queued";
  write_status(formats::real_file_system(), dir, queued);
  FaultyFileSystem files(dir);
  files.fail_from(1, ENOSPC);
  EXPECT_NE(run_job(files, dir), 0);
  EXPECT_EQ(read_job(dir, CurveDetail::none).state, "died");
}

// What is damaged after the end is found by whoever resumes, and a job that is whole, or of which
// the results alone were kept, is left as it is.
TEST_F(JobFaults, Risk8AResumeOfWhatIsDoneLooksAtItsLastCheckpoint) {
  setenv("XDG_DATA_HOME", (folder_.path() / "data").c_str(), 1);
  const fs::path dir = write_job("j"), nothing = folder_.path() / "nothing";
  FaultyFileSystem files(dir);
  ASSERT_EQ(run_job(files, dir), 0);
  const auto told = [&]() -> std::string {
    try {
      return control_job(formats::real_file_system(), dir, "resume", nothing).state;
    } catch (const formats::Error& error) {
      return error.message();
    }
  };
  EXPECT_EQ(told(), "the job is done");
  const fs::path last = checkpoint_folder(dir / "checkpoints", kSteps);
  std::ofstream(last / "model.safetensors", std::ios::app) << "x";
  EXPECT_TRUE(told().starts_with("the job's process cannot be started")) << told();
  JobStart start;
  start.dir = dir, start.existing = ExistingJob::resume, start.program = nothing;
  auto status = read_job(dir, CurveDetail::none);
  status.state = "done";
  write_status(formats::real_file_system(), dir, status);
  EXPECT_THROW(start_training(formats::real_file_system(), start), formats::Error);
  expect_whole_after_a_resume(files, "a checkpoint that was damaged after the end");
  fs::remove_all(dir / "checkpoints");
  EXPECT_EQ(start_training(formats::real_file_system(), start).state, "done");
}

// ---- Folders that somebody else made -------------------------------------------------------------

// Each file of a job's folder a link to what never ends, or of a size that nobody meant.
TEST_F(JobFaults, Risk19AFolderOfAnybodysIsReadWithLimits) {
  for (const char* name :
       {"status.json", "control.json", "metrics.jsonl", "log.txt", "config.json",
        "checkpoints/step-6/model.safetensors", "checkpoints/step-6/manifest.json"}) {
    const fs::path dir = write_job("j");
    ASSERT_EQ(run_job(dir), 0);
    fs::remove(dir / name);
    fs::create_symlink("/dev/zero", dir / name);
    EXPECT_NO_THROW(read_job(dir, CurveDetail::thinned)) << name;
    EXPECT_EQ(read_request(dir), JobRequest::none) << name;
    log_tail(dir, 5);
    const auto found = find_newest_checkpoint(formats::real_file_system(), dir / "checkpoints");
    ASSERT_TRUE(found.newest) << name;
    const bool of_checkpoint = std::string(name).starts_with("checkpoints");
    EXPECT_EQ(found.newest->step, of_checkpoint ? kSteps - kBetweenSaves : kSteps) << name;
  }
  // Nor does whoever goes on there read without an end.
  const fs::path again = write_job("j");
  fs::create_symlink("/dev/zero", again / "metrics.jsonl");
  config_.train.csv = true;
  std::ofstream(again / "config.json") << to_json(config_);
  EXPECT_EQ(run_job(again), 0);
  EXPECT_TRUE(find_newest_checkpoint(formats::real_file_system(), again / "checkpoints").newest);
  fs::create_symlink("/dev/zero", again / "rows.jsonl");
  EXPECT_THROW(EvalRows(formats::real_file_system(), again / "rows.jsonl"), formats::Error);
  config_.train.csv = false;
  const fs::path dir = write_job("j");
  ASSERT_EQ(run_job(dir), 0);
  for (const char* name : {"status.json", "log.txt", "metrics.jsonl"}) {
    std::ofstream(dir / name, std::ios::app).close();
    fs::resize_file(dir / name, std::uintmax_t{1} << 40);  // a hole: it takes no room
  }
  EXPECT_EQ(read_job(dir, CurveDetail::none).message, "status.json cannot be read");
  EXPECT_LE(log_tail(dir, 5).size(), std::size_t{8} << 20);
  // A manifest's names are of its own folder.
  const fs::path manifest = dir / "checkpoints/step-6/manifest.json";
  auto written = nlohmann::json::parse(formats::real_file_system().read(manifest));
  written["files"][0]["name"] = "../../config.json";
  std::ofstream(manifest, std::ios::trunc) << written;
  const auto found = find_newest_checkpoint(formats::real_file_system(), dir / "checkpoints");
  EXPECT_EQ(found.newest->step, kSteps - kBetweenSaves);
}

// A request of a run that has ended is not obeyed by the next one, whoever starts it.
TEST_F(JobFaults, Risk22AnOldRequestIsNotObeyed) {
  const fs::path dir = write_job("j");
  ASSERT_EQ(run_job(dir), 0);
  fs::remove_all(dir / "checkpoints" / ("step-" + std::to_string(kSteps)));
  write_request(formats::real_file_system(), dir, JobRequest::cancel);
  EXPECT_EQ(run_job(dir), 0);
  EXPECT_EQ(losses_of("j"), losses_);
  // One that is asked of a job that waits for its process stands.
  fs::remove_all(dir / "checkpoints" / ("step-" + std::to_string(kSteps)));
  auto status = read_job(dir, CurveDetail::none);
  status.state = "queued";
  write_status(formats::real_file_system(), dir, status);
  write_request(formats::real_file_system(), dir, JobRequest::cancel);
  EXPECT_EQ(run_job(dir), 130);
}

}  // namespace
}  // namespace phasescope::training
