// Starts of jobs in one folder at the same time, and requests before the first step.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_lock.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

class JobStarts : public testing::Test {
 protected:
  JobStarts() {
    setenv("XDG_DATA_HOME", (folder_.path() / "data").c_str(), 1);
    setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
  }
  ~JobStarts() override { unsetenv("XDG_CACHE_HOME"); }

  // No process is started: a launcher would.
  JobStart launched(const fs::path& dir, int64_t steps) const {
    JobStart start;
    start.dir = dir, start.launched = true;
    start.config = to_json(small_run(folder_.path(), steps));
    return start;
  }

  TemporaryFolder folder_;
  formats::FileSystem& files_ = formats::real_file_system();
};

// All look into the empty folder before any has written; one job is there in the end, as its
// starter asked for it, and every other starter knows that it has none.
TEST_F(JobStarts, OfManyAtOnceOneHasTheFolder_Risk12) {
  constexpr std::size_t kStarts = 6;
  const fs::path dir = folder_.path() / "j";
  std::vector<JobStart> starts;
  for (std::size_t n = 0; n < kStarts; ++n) {
    starts.push_back(launched(dir, 100 + static_cast<int64_t>(n)));
  }
  std::vector<std::string> said(kStarts);
  std::barrier ready(static_cast<std::ptrdiff_t>(kStarts));
  std::vector<std::thread> threads;
  for (std::size_t n = 0; n < kStarts; ++n) {
    threads.emplace_back([&, n] {
      ready.arrive_and_wait();
      try {
        start_training(files_, starts[n]);
      } catch (const formats::Error& error) {
        said[n] = error.code() + ": " + error.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(std::ranges::count(said, ""), 1);
  const auto winner = std::ranges::find(said, "") - said.begin();
  EXPECT_EQ(formats::json_from_file(dir / job_file::config).at("train").at("steps"), 100 + winner);
  for (const std::string& one : said) {
    if (!one.empty()) {
      EXPECT_TRUE(one.starts_with("bad_usage: ")) << one;
    }
  }
}

// A folder that somebody works in is not written into.
TEST_F(JobStarts, AFolderInUseIsLeftAsItIs) {
  const fs::path dir = folder_.path() / "j";
  fs::create_directories(dir);
  const auto lock = JobLock::try_take(dir);
  ASSERT_TRUE(lock);
  EXPECT_THROW(start_training(files_, launched(dir, 5)), formats::Error);
  JobStart eval;
  eval.dir = dir;
  EXPECT_THROW(start_eval(files_, eval, {{"task", "perplexity"}, {"models", {"rope"}}}),
               formats::Error);
  EXPECT_FALSE(fs::exists(dir / job_file::config));
  EXPECT_FALSE(fs::exists(dir / job_file::status));
}

// A large text is hashed and cut for minutes or hours: who cancels need not wait for the first
// step.
TEST_F(JobStarts, ACancelIsObeyedWhileATextIsPrepared) {
  RunConfig config = small_run(folder_.path(), 5);
  fs::create_directories(folder_.path() / "texts");
  std::ofstream(folder_.path() / "texts/a.txt") << small_text();
  config.data.corpus = (folder_.path() / "texts").string();
  const fs::path dir = folder_.path() / "j";
  fs::create_directories(dir);
  std::ofstream(dir / job_file::config) << to_json(config);
  protocol::JobStatus status;
  status.state = "queued";
  write_status(files_, dir, status);
  write_request(files_, dir, JobRequest::cancel);
  EXPECT_EQ(run_job(dir), 130);
  EXPECT_EQ(read_job(dir, CurveDetail::none).state, "cancelled");
  EXPECT_FALSE(fs::exists(folder_.path() / "cache/phasescope/tokens"));
  clear_request(files_, dir);
  EXPECT_EQ(run_job(dir), 0) << log_tail(dir, 5);
}

}  // namespace
}  // namespace phasescope::training
