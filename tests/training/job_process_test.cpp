// Jobs as processes of their own, and what kill -9 does to them.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "formats/error.h"
#include "formats/json.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "tests/training/started_processes.h"
#include "training/checkpoint.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_lock.h"
#include "training/jobs/metrics_log.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::JobStatus;

formats::FileSystem& real() { return formats::real_file_system(); }

std::vector<double> curve_of(const fs::path& dir) {
  std::vector<double> losses;
  std::int64_t step = 0;
  for (const auto& point : read_metrics(dir / "metrics.jsonl")) {
    EXPECT_EQ(point.step, ++step);  // no step is missing or there twice
    losses.push_back(point.loss);
  }
  return losses;
}

class JobProcess : public testing::Test {
 protected:
  JobProcess() { setenv("XDG_DATA_HOME", (folder_.path() / "data").c_str(), 1); }
  ~JobProcess() override {
    for (const fs::path& dir : started_) {
      if (job_is_alive(dir)) kill_job(dir);
    }
  }

  JobStart start_of(const fs::path& dir, const RunConfig& config) {
    started_.push_back(dir);
    JobStart start;
    start.dir = dir;
    start.config = to_json(config);
    start.program = PHASESCOPE_JOB_RUNNER;
    return start;
  }

  JobStart resume_of(const fs::path& dir) {
    started_.push_back(dir);
    JobStart start;
    start.dir = dir;
    start.existing = ExistingJob::resume;
    start.program = PHASESCOPE_JOB_RUNNER;
    return start;
  }

  static std::string state_of(const fs::path& dir) {
    return read_job(dir, CurveDetail::none).state;
  }

  static bool has_state(const fs::path& dir, const std::string& state, double seconds = 600) {
    return within(seconds, [&] { return state_of(dir) == state; });
  }

  // The pid is only information; here it is asked right after the lock said that the job lives.
  static void kill_job(const fs::path& dir) {
    const auto pid = static_cast<pid_t>(read_job(dir, CurveDetail::none).pid);
    if (pid > 1 && job_is_alive(dir)) kill(pid, SIGKILL);
    within(10, [&] { return !job_is_alive(dir); });
  }

  static bool saves_now(const fs::path& dir) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(dir / "checkpoints", ignored)) {
      if (entry.path().extension() == ".tmp") return true;
    }
    return false;
  }

  static bool is_stopped(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const std::size_t name = line.rfind(')');
    return name == line.npos || line.substr(name + 2, 1) == "T";
  }

  // Kills the job while a save is under way, and says whether it was: a stopped process is looked
  // at, so that the save cannot have ended meanwhile.
  static bool kill_in_a_save(const fs::path& dir) {
    const auto pid = static_cast<pid_t>(read_job(dir, CurveDetail::none).pid);
    bool caught = false;
    within(10, [&] {  // on a busy machine saves come seldom, and are seen seldom
      if (!job_is_alive(dir)) return true;
      if (!saves_now(dir)) return false;
      kill(pid, SIGSTOP);
      within(5, [&] { return is_stopped(pid); });
      caught = saves_now(dir);
      if (!caught) kill(pid, SIGCONT);
      return caught;
    });
    kill_job(dir);
    return caught && saves_now(dir);
  }

  // Trains once undisturbed and once with so many deaths, at least `least` of them before the last
  // step; every second one is looked for in a save.
  void expect_the_same_after_kills(const RunConfig& config, int kills, int least = 3) {
    const std::string name = config.of_text() ? "text" : config.task.name;
    const fs::path whole = folder_.path() / (name + "_whole"), dir = folder_.path() / name;
    start_training(real(), start_of(whole, config));
    ASSERT_TRUE(has_state(whole, "done")) << log_tail(whole, 50);
    start_training(real(), start_of(dir, config));
    std::mt19937 random(7);
    int killed = 0, in_saves = 0;
    for (; killed < kills && state_of(dir) != "done"; ++killed) {
      if (killed % 2 == 0) {
        in_saves += kill_in_a_save(dir) ? 1 : 0;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 250));
        kill_job(dir);
      }
      start_training(real(), resume_of(dir));
    }
    EXPECT_GE(killed, least);
    // A save may be over before it is seen, on a disk that is quick.
    EXPECT_GE(in_saves, std::max(1, least / 4)) << "too few kills fell into a save";
    ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
    EXPECT_EQ(curve_of(dir), curve_of(whole));
    const fs::path checkpoints = dir / "checkpoints";
    const auto best = best_checkpoint(real(), checkpoints);
    EXPECT_EQ(best, best_checkpoint(real(), whole / "checkpoints"));
    EXPECT_EQ(best.has_value(), config.train.keep_best != "off");
    if (best) {
      EXPECT_NO_THROW(verify_checkpoint(real(), checkpoint_folder(checkpoints, *best)));
    }
    for (const auto& entry : fs::recursive_directory_iterator(dir)) {
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    }
  }

  TemporaryFolder folder_;
  std::vector<fs::path> started_;
};

TEST_F(JobProcess, RunsToItsEndAndIsFoundAgain) {
  const fs::path dir = folder_.path() / "elsewhere/j";
  const JobStatus started = start_training(real(), start_of(dir, small_run(folder_.path(), 20)));
  EXPECT_EQ(started.kind, "train");
  EXPECT_EQ(started.steps, 20);
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  EXPECT_NE(log_tail(dir, 50).find("attention: fused cpu "), std::string::npos)
      << log_tail(dir, 50);
  const JobStatus ended = read_job(dir, CurveDetail::thinned);
  EXPECT_EQ(ended.step, 20);
  EXPECT_EQ(ended.kernel.rfind("fused cpu ", 0), 0u) << ended.kernel;
  EXPECT_EQ(ended.curve.size(), 20u);
  EXPECT_TRUE(ended.curve.back().validation_bits);
  EXPECT_EQ(ended.config.at("data").at("corpus_sha256").get<std::string>().size(), 64u);
  ASSERT_EQ(find_jobs().size(), 1u);
  EXPECT_EQ(find_jobs()[0], dir);
  // Resuming what is done changes nothing.
  EXPECT_EQ(start_training(real(), resume_of(dir)).state, "done");
}

// A task's desk recipe in small, with a save every two steps.
RunConfig small_task(const std::string& name, std::int64_t steps) {
  RunConfig config =
      run_config_from_file(fs::path(PHASESCOPE_SOURCE) / "sample_configs/desk" / (name + ".json"));
  config.task.batch = 8;
  config.train.steps = steps, config.train.checkpoint_every = 2;
  config.eval.every = 0, config.eval.windows = 8;
  return config;
}

RunConfig saving_text(const fs::path& folder, std::int64_t steps) {
  RunConfig config = small_run(folder, steps);
  config.train.checkpoint_every = 2;
  return config;
}

// reliability.md, row 24: killed by signal 9 again and again, at random moments and in saves (one
// every two steps), a training makes the losses of one that was never killed, bit for bit.
TEST_F(JobProcess, Row24KilledAtRandomMomentsItResumesToTheSameLosses) {
  expect_the_same_after_kills(saving_text(folder_.path(), 120), 10);
}

TEST_F(JobProcess, Row24AnEncoderAndAnEncoderDecoderResumeToTheSameLosses) {
  for (const char* name : {"missing_duplicate_rope", "copy_rope"}) {
    expect_the_same_after_kills(small_task(name, 30), 3);
  }
}

// With all that is left out at random, and the best checkpoint, which is the first one: what it is
// measured on has none of the bytes that are learnt.
TEST_F(JobProcess, Row24WhatIsLeftOutAndTheBestCheckpointSurviveKills) {
  RunConfig config = saving_text(folder_.path(), 60);
  config.train.dropout = config.train.embedding_dropout = config.train.score_dropout = 0.1;
  config.train.drop_path = 0.2, config.train.label_smoothing = 0.1;
  config.train.keep_best = "bits", config.eval.every = 3;
  config.data.validation = (folder_.path() / "others.txt").string();
  std::ofstream(config.data.validation) << std::string(1000, 'Q');
  expect_the_same_after_kills(config, 4);
}

// So many steps that all deaths come before the last one: between two of them it makes some tens.
TEST_F(JobProcess, Row24LongKilledAtFiftyRandomMoments) {
  expect_the_same_after_kills(saving_text(folder_.path(), 4000), 50, 50);
  for (const char* name : {"missing_duplicate_rope", "copy_rope", "tree_copy_ape"}) {
    expect_the_same_after_kills(small_task(name, 400), 12, 12);
  }
}

// ---- Memory that is not there --------------------------------------------------------------------

// Steps of 32 MB of logits, more than a heap keeps: each asks the system for memory.
RunConfig large_steps(const fs::path& folder, std::int64_t steps) {
  RunConfig config = small_run(folder, steps);
  config.train.curriculum.clear();
  config.train.batch_tokens = 32'768, config.train.threads = 1;
  // Of other products a library holds some of the memory, and does not say how much it wanted.
  config.train.dtype = "f32";
  config.train.checkpoint_every = 1000;
  config.eval.every = 0;
  return config;
}

// Jobs that are started while it lives give back to the system what a step has freed: what they
// have between two steps is then the least.
class FreedIsGivenBack {
 public:
  FreedIsGivenBack() { setenv(kOption, "1048576", 1); }
  ~FreedIsGivenBack() { unsetenv(kOption); }

 private:
  static constexpr const char* kOption = "MALLOC_MMAP_THRESHOLD_";
};

// Addresses in use now, bytes.
rlim_t address_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// The least and the most that a training has while it makes steps.
std::pair<rlim_t, rlim_t> addresses_in_steps(pid_t pid, const fs::path& dir) {
  const auto steps = [&dir] { return read_metrics(dir / "metrics.jsonl").size(); };
  EXPECT_TRUE(within(600, [&] { return steps() >= 2; }));
  rlim_t least = RLIM_INFINITY, most = 0;
  EXPECT_TRUE(within(600, [&] {
    for (int n = 0; n < 50; ++n) {
      const rlim_t now = address_bytes(pid);
      least = std::min(least, now), most = std::max(most, now);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return steps() >= 5;
  }));
  return {least, most};
}

void limit_addresses(pid_t pid, rlim_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  ASSERT_EQ(prlimit(pid, RLIMIT_AS, &limit, nullptr), 0);
}

// reliability.md, row 21: room for half a step's rows with the gradients, and not for all.
TEST_F(JobProcess, Row21AStepWithoutMemoryIsMadeInSmallerParts) {
  const FreedIsGivenBack given_back;
  const RunConfig config = large_steps(folder_.path(), 8);
  const fs::path whole = folder_.path() / "whole", dir = folder_.path() / "j";
  start_training(real(), start_of(whole, config));
  ASSERT_TRUE(has_state(whole, "done")) << log_tail(whole, 50);
  start_training(real(), start_of(dir, config));
  const auto pid = static_cast<pid_t>(read_job(dir, CurveDetail::none).pid);
  const auto [least, most] = addresses_in_steps(pid, dir);
  limit_addresses(pid, least + (most - least) / 4 * 3);
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  const std::string log = log_tail(dir, 50);
  EXPECT_NE(log.find("MB are free"), std::string::npos) << log;
  EXPECT_NE(log.find("are read in 2 parts"), std::string::npos) << log;
  const auto losses = curve_of(dir), wanted = curve_of(whole);
  ASSERT_EQ(losses.size(), wanted.size());
  for (std::size_t n = 0; n < wanted.size(); ++n) {
    // float32 sums of 32,768 losses in another order: their rounding grows as its root, 181 * 6e-8.
    EXPECT_NEAR(losses[n], wanted[n], 1.5e-5 * wanted[n]) << n;
  }
}

// Not even for half of them: the steps before are saved, and a resume makes those of an unbroken
// run. A training that is paused has what it has between two steps.
TEST_F(JobProcess, Row21WithoutMemoryTheStepsBeforeAreSaved_Risk9) {
  const FreedIsGivenBack given_back;
  constexpr rlim_t kRoomToSave = rlim_t{16} << 20;
  const RunConfig config = large_steps(folder_.path(), 4);
  const fs::path whole = folder_.path() / "whole", dir = folder_.path() / "j";
  start_training(real(), start_of(whole, config));
  ASSERT_TRUE(has_state(whole, "done")) << log_tail(whole, 50);
  start_training(real(), start_of(dir, config));
  const auto pid = static_cast<pid_t>(read_job(dir, CurveDetail::none).pid);
  ASSERT_TRUE(within(600, [&] { return !read_metrics(dir / "metrics.jsonl").empty(); }));
  control_job(real(), dir, "pause");
  ASSERT_TRUE(has_state(dir, "paused")) << log_tail(dir, 50);
  limit_addresses(pid, address_bytes(pid) + kRoomToSave);
  control_job(real(), dir, "resume");
  ASSERT_TRUE(has_state(dir, "failed")) << log_tail(dir, 50);
  const std::string said = read_job(dir, CurveDetail::none).message;
  for (const char* part : {"MB were wanted", "MB are free", "halve train.batch_tokens"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  const auto newest = find_newest_checkpoint(real(), dir / "checkpoints").newest;
  ASSERT_TRUE(newest) << log_tail(dir, 50);
  EXPECT_EQ(newest->step, static_cast<std::int64_t>(read_metrics(dir / "metrics.jsonl").size()));
  start_training(real(), resume_of(dir));
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  EXPECT_EQ(curve_of(dir), curve_of(whole));
}

// A scheduler that takes the machine back sends SIGTERM: no step is lost.
TEST_F(JobProcess, Row33AskedToEndItSavesAndLeaves_Risk10) {
  const fs::path dir = folder_.path() / "j";
  RunConfig config = small_run(folder_.path(), 100'000);
  config.train.checkpoint_every = 100'000;
  start_training(real(), start_of(dir, config));
  ASSERT_TRUE(within(600, [&] { return !read_metrics(dir / "metrics.jsonl").empty(); }));
  kill(static_cast<pid_t>(read_job(dir, CurveDetail::none).pid), SIGTERM);
  ASSERT_TRUE(has_state(dir, "cancelled")) << log_tail(dir, 50);
  EXPECT_NE(read_job(dir, CurveDetail::none).message.find("asked to end"), std::string::npos);
  const auto newest = find_newest_checkpoint(real(), dir / "checkpoints").newest;
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, static_cast<std::int64_t>(read_metrics(dir / "metrics.jsonl").size()));
}

TEST_F(JobProcess, Row34LosesNoStepBeforeALossThatIsNoNumber_Risk9) {
  const fs::path dir = folder_.path() / "j";
  RunConfig config = small_run(folder_.path(), 50);
  config.train.checkpoint_every = 50;
  config.train.warmup_steps = 0;
  config.train.learning_rate = 1e30;
  start_training(real(), start_of(dir, config));
  ASSERT_TRUE(has_state(dir, "failed")) << log_tail(dir, 50);
  const auto newest = find_newest_checkpoint(real(), dir / "checkpoints").newest;
  ASSERT_TRUE(newest) << log_tail(dir, 50);
  EXPECT_EQ(newest->step, static_cast<std::int64_t>(read_metrics(dir / "metrics.jsonl").size()));
}

// reliability.md, row 24: what a crash or a careless hand left behind costs the steps since the
// last checkpoint that verifies, no more.
TEST_F(JobProcess, Row24DamagedFilesAreNoObstacleToAResume) {
  RunConfig config = small_run(folder_.path(), 60);
  config.train.checkpoint_every = 5;
  const fs::path whole = folder_.path() / "whole", dir = folder_.path() / "damaged";
  start_training(real(), start_of(whole, config));
  ASSERT_TRUE(has_state(whole, "done")) << log_tail(whole, 50);
  start_training(real(), start_of(dir, config));
  ASSERT_TRUE(
      within(600, [&] { return checkpoint_steps(real(), dir / "checkpoints").size() >= 2; }));
  kill_job(dir);
  const std::vector<std::int64_t> steps = checkpoint_steps(real(), dir / "checkpoints");
  const std::string newest = "step-" + std::to_string(steps.back());
  fs::resize_file(dir / "checkpoints" / newest / "model.safetensors", 100);
  std::ofstream(dir / "status.json", std::ios::trunc) << "{\"state\": ";
  std::ofstream(dir / "control.json", std::ios::trunc) << std::string(100'000, '[');
  EXPECT_EQ(state_of(dir), "died");
  start_training(real(), resume_of(dir));
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  EXPECT_EQ(curve_of(dir), curve_of(whole));
  EXPECT_NE(log_tail(dir, 50).find("skipped checkpoint " + newest + ": model.safetensors"),
            std::string::npos)
      << log_tail(dir, 50);
}

TEST_F(JobProcess, AKilledJobShowsAsDied) {
  const fs::path dir = folder_.path() / "j";
  start_training(real(), start_of(dir, small_run(folder_.path(), 100'000)));
  ASSERT_TRUE(has_state(dir, "running")) << log_tail(dir, 50);
  kill_job(dir);
  EXPECT_EQ(state_of(dir), "died");
}

// reliability.md, row 25: the process that started a job is killed, the job goes on.
TEST_F(JobProcess, Row25OutlivesItsStarter) {
  const fs::path dir = folder_.path() / "j";
  const JobStart start = start_of(dir, small_run(folder_.path(), 400));
  const pid_t starter = fork();
  if (starter == 0) {
    try {
      start_training(real(), start);
    } catch (...) {
      _exit(1);
    }
    pause();
  }
  // The folder is in use by the starter itself for a moment before.
  ASSERT_TRUE(within(600, [&] {
    return fs::exists(dir / "status.json") && state_of(dir) != "queued" && job_is_alive(dir);
  }));
  kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  EXPECT_EQ(read_metrics(dir / "metrics.jsonl").size(), 400u);
  ASSERT_EQ(find_jobs().size(), 1u);
}

TEST_F(JobProcess, PausesResumesAndIsCancelled) {
  const fs::path dir = folder_.path() / "j";
  start_training(real(), start_of(dir, small_run(folder_.path(), 100'000)));
  ASSERT_TRUE(within(600, [&] { return !read_metrics(dir / "metrics.jsonl").empty(); }));
  control_job(real(), dir, "pause");
  ASSERT_TRUE(has_state(dir, "paused")) << log_tail(dir, 50);
  const auto before = read_metrics(dir / "metrics.jsonl").size();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(read_metrics(dir / "metrics.jsonl").size(), before);
  control_job(real(), dir, "resume");
  ASSERT_TRUE(has_state(dir, "running"));
  ASSERT_TRUE(within(600, [&] { return read_metrics(dir / "metrics.jsonl").size() > before; }));
  control_job(real(), dir, "cancel");
  ASSERT_TRUE(has_state(dir, "cancelled")) << log_tail(dir, 50);
  // What was done is kept, and the job can go on from there.
  const auto newest = find_newest_checkpoint(real(), dir / "checkpoints").newest;
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, static_cast<std::int64_t>(read_metrics(dir / "metrics.jsonl").size()));
  control_job(real(), dir, "resume", PHASESCOPE_JOB_RUNNER);
  EXPECT_TRUE(has_state(dir, "running")) << log_tail(dir, 50);
}

TEST_F(JobProcess, Row36ResumeFollowsALiveJobAndNamesWhatDiffers) {
  const fs::path dir = folder_.path() / "j";
  const RunConfig config = small_run(folder_.path(), 100'000);
  start_training(real(), start_of(dir, config));
  ASSERT_TRUE(has_state(dir, "running")) << log_tail(dir, 50);
  EXPECT_THROW(start_training(real(), start_of(dir, config)), formats::Error);
  const auto pid = read_job(dir, CurveDetail::none).pid;
  JobStart again = start_of(dir, config);
  again.existing = ExistingJob::resume;
  again.settings = {"train.seed=5"};
  const JobStatus status = start_training(real(), again);
  EXPECT_EQ(status.pid, pid);
  EXPECT_NE(status.message.find("train.seed"), std::string::npos) << status.message;
}

// Who asks for more steps of what is done, in the job's own file, gets them.
TEST_F(JobProcess, Row36ADoneJobOfMoreStepsGoesOn) {
  const fs::path dir = folder_.path() / "longer";
  RunConfig config = small_run(folder_.path(), 10);
  start_training(real(), start_of(dir, config));
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  EXPECT_EQ(start_training(real(), resume_of(dir)).state, "done");
  json own = formats::json_from_file(dir / job_file::config);
  own["train"]["steps"] = 15;
  std::ofstream(dir / job_file::config) << own;
  start_training(real(), resume_of(dir));
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  EXPECT_EQ(read_job(dir, CurveDetail::none).step, 15);
  EXPECT_EQ(curve_of(dir).size(), 15u);
  EXPECT_NE(
      log_tail(dir, 50).find("goes on otherwise than it began: train.steps (10 before, now 15)"),
      std::string::npos)
      << log_tail(dir, 50);
  // So does who asks for it by "jobs resume", of a job that is done by its own file too.
  EXPECT_THROW(control_job(real(), dir, "resume", PHASESCOPE_JOB_RUNNER), formats::Error);
  own["train"]["steps"] = 18;
  std::ofstream(dir / job_file::config) << own;
  EXPECT_EQ(control_job(real(), dir, "resume", PHASESCOPE_JOB_RUNNER).steps, 18);
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  EXPECT_EQ(read_job(dir, CurveDetail::none).step, 18);
}

// A window beside a training stays quick because the training yields, with all of its threads: when
// it is started, and when it is started again.
TEST_F(JobProcess, EveryThreadYieldsTheProcessor) {
  struct Yields {
    int niceness = -100, policy = -1;
  };
  const auto yields_of = [](const fs::path& task) {
    std::ifstream file(task / "stat");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    // Behind the name in parentheses, which is field 2: the niceness is field 19, the policy 41.
    std::istringstream words(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string word;
    Yields yields;
    for (int field = 3; words >> word; ++field) {
      if (field == 19) yields.niceness = std::stoi(word);
      if (field == 41) yields.policy = std::stoi(word);
    }
    return yields;
  };
  const Yields own = yields_of("/proc/self");
  const fs::path dir = folder_.path() / "yields";
  RunConfig config = small_run(folder_.path(), 1'000'000);
  config.train.threads = 2, config.train.batch_tokens = 1024;
  config.train.checkpoint_every = 1'000'000;
  start_training(real(), start_of(dir, config));
  for (const bool again : {false, true}) {
    if (again) kill_job(dir), control_job(real(), dir, "resume", PHASESCOPE_JOB_RUNNER);
    ASSERT_TRUE(within(60, [&] {
      const JobStatus now = read_job(dir, CurveDetail::none);
      return now.state == "running" && now.step > 0;
    })) << log_tail(dir, 50);
    const fs::path process = "/proc/" + std::to_string(read_job(dir, CurveDetail::none).pid);
    int threads = 0;
    for (const auto& task : fs::directory_iterator(process / "task")) {
      const Yields thread = yields_of(task.path());
      if (thread.policy < 0) continue;  // it has ended meanwhile
      EXPECT_EQ(thread.niceness, std::max(10, own.niceness)) << task.path();
      EXPECT_EQ(thread.policy, own.policy == SCHED_OTHER ? SCHED_BATCH : own.policy);
      ++threads;
    }
    EXPECT_GE(threads, 2);
  }
  EXPECT_EQ(yields_of("/proc/self").niceness, own.niceness);  // whoever starts it stays as it was
  EXPECT_EQ(yields_of("/proc/self").policy, own.policy);
}

TEST_F(JobProcess, ResumeWithoutACheckpointBeginsAtStepZero) {
  const fs::path dir = folder_.path() / "j";
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << to_json(small_run(folder_.path(), 5));
  start_training(real(), resume_of(dir));
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  EXPECT_EQ(curve_of(dir).size(), 5u);
}

TEST_F(JobProcess, WhatCannotStartSaysSo) {
  const RunConfig config = small_run(folder_.path(), 5);
  JobStart start = start_of(folder_.path() / "a", config);
  start.program = folder_.path() / "nothing";
  EXPECT_THROW(start_training(real(), start), formats::Error);
  start = start_of(folder_.path() / "b", config);
  start.settings = {"train.stepz=3"};
  EXPECT_THROW(start_training(real(), start), formats::Error);
  start = start_of(folder_.path() / "c", config);
  start.settings = {"data.corpus=" + (folder_.path() / "missing.txt").string()};
  EXPECT_THROW(start_training(real(), start), formats::Error);
  EXPECT_FALSE(fs::exists(folder_.path() / "c"));
  for (const char* setting : {"data.validation=/missing.txt", "train.device=foo",
                              "train.device=cuda:999", "train.threads=100000"}) {
    start = start_of(folder_.path() / "d", config);
    start.settings = {setting};
    EXPECT_THROW(start_training(real(), start), formats::Error) << setting;
    EXPECT_FALSE(fs::exists(folder_.path() / "d")) << setting;
  }
}

TEST_F(JobProcess, AnEvalRunsAsAJob) {
  const fs::path trained = folder_.path() / "trained", dir = folder_.path() / "eval";
  start_training(real(), start_of(trained, small_run(folder_.path(), 5)));
  ASSERT_TRUE(has_state(trained, "done")) << log_tail(trained, 50);
  JobStart start = resume_of(dir);
  start.existing = ExistingJob::refuse;
  const json request = {{"task", "perplexity"},
                        {"models", {trained.string()}},
                        {"lengths", {32, 64}},
                        {"corpus", (folder_.path() / "text.txt").string()}};
  start_eval(real(), start, request);
  ASSERT_TRUE(has_state(dir, "done")) << log_tail(dir, 50);
  const json result = json::parse(real().read(dir / "result.json"));
  EXPECT_EQ(result.at("rows").size(), 2u);
  EXPECT_EQ(read_job(dir, CurveDetail::none).kind, "eval");
  EXPECT_THROW(start_eval(real(), start_of(folder_.path() / "x", {}), {{"task", "nosuch"}}),
               formats::Error);
}

}  // namespace
}  // namespace phasescope::training
