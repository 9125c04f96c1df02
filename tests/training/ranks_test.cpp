// Trainings by several processes, on loopback: what they come to, and what ends them.
#include "training/ranks/ranks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "formats/error.h"
#include "formats/json.h"
#include "tests/temporary_folder.h"
#include "tests/training/free_port.h"
#include "tests/training/small_run.h"
#include "tests/training/started_processes.h"
#include "training/checkpoint.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/joint_requests.h"
#include "training/jobs/metrics_log.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

formats::FileSystem& real() { return formats::real_file_system(); }

class TrainingRanks : public testing::Test {
 protected:
  void SetUp() override {
#ifndef PHASESCOPE_GLOO
    GTEST_SKIP() << "built without Gloo (libgloo-dev)";
#endif
    setenv("XDG_DATA_HOME", (folder_.path() / "data").c_str(), 1);
  }

  // Losses and validations of a training by one process.
  fs::path alone(RunConfig config, std::int64_t accumulate) {
    const fs::path dir = folder_.path() / ("alone-" + std::to_string(accumulate));
    config.train.accumulate = accumulate;
    make(dir, config);
    EXPECT_EQ(run_job(dir), 0) << log_tail(dir, 50);
    return dir;
  }

  static void make(const fs::path& dir, const RunConfig& config) {
    JobStart start{.dir = dir, .name = "", .config = to_json(config)};
    start.launched = true;
    start_training(real(), start);
  }

  pid_t start_rank(const fs::path& dir, int rank, const Variables& variables) {
    const pid_t id = ::fork();
    if (id != 0) {
      processes_.add(id);
      return id;
    }
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    const fs::path said = dir.parent_path() / ("said-" + std::to_string(rank));
    if (!std::freopen(said.c_str(), "w", stderr)) ::_exit(126);
    ::execl(PHASESCOPE_JOB_RUNNER, PHASESCOPE_JOB_RUNNER, kRankArgument, dir.c_str(), nullptr);
    ::_exit(127);
  }

  std::vector<pid_t> start_ranks(const fs::path& dir, int size, const std::string& timeout = "60") {
    const Variables variables{{"WORLD_SIZE", std::to_string(size)},
                              {"LOCAL_RANK", "0"},
                              {"MASTER_ADDR", "127.0.0.1"},
                              {"MASTER_PORT", std::to_string(free_port())},
                              {"PHASESCOPE_RANK_TIMEOUT", timeout}};
    std::vector<pid_t> ids;
    for (int rank = 0; rank < size; ++rank) ids.push_back(start_rank(dir, rank, variables));
    return ids;
  }

  int end_of(pid_t id, double seconds = 120) { return processes_.end_of(id, seconds); }

  std::string said_by(int rank) const {
    return text_of(folder_.path() / ("said-" + std::to_string(rank)));
  }

  static void expect_same_training(const fs::path& one, const fs::path& other) {
    const auto a = read_metrics(one / "metrics.jsonl"), b = read_metrics(other / "metrics.jsonl");
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t n = 0; n < a.size(); ++n) {
      EXPECT_EQ(a[n].step, static_cast<std::int64_t>(n) + 1);
      EXPECT_EQ(a[n].loss, b[n].loss) << n;
      EXPECT_EQ(a[n].gradient_norm, b[n].gradient_norm) << n;
      EXPECT_EQ(a[n].validation_bits, b[n].validation_bits) << n;
      EXPECT_EQ(a[n].tokens, b[n].tokens) << n;
    }
    const fs::path last = checkpoint_folder("checkpoints", a.back().step);
    for (const char* file : {"model.safetensors", "optimiser.safetensors"}) {
      EXPECT_TRUE(text_of(one / last / file) == text_of(other / last / file)) << file;
    }
  }

  bool has_points(const fs::path& dir, std::size_t count) const {
    return within(60, [&] { return read_metrics(dir / "metrics.jsonl").size() >= count; });
  }

  TemporaryFolder folder_;
  StartedProcesses processes_;
};

// The sums are taken in the order of the ranks, which is that of a process with as many parts:
// nothing is left to rounding. Three ranks share 16, 8 and 4 windows unevenly.
TEST_F(TrainingRanks, MakeTheLossesOfOneProcessBitForBit) {
  const RunConfig config = small_run(folder_.path(), 25);
  for (const int size : {2, 3}) {
    const fs::path dir = folder_.path() / ("ranks-" + std::to_string(size));
    make(dir, config);
    const auto ids = start_ranks(dir, size);
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_EQ(end_of(ids[static_cast<std::size_t>(rank)]), 0) << said_by(rank);
    }
    EXPECT_EQ(read_job(dir, CurveDetail::none).state, "done");
    expect_same_training(dir, alone(config, size));
  }
}

// With the step's rows read at once the mean is summed in another order: of at most 128 float32
// losses, each addition off by half a unit in the last place.
TEST_F(TrainingRanks, BeginAsOneProcessWithoutPartsUpToRounding) {
  RunConfig config = small_run(folder_.path(), 3);
  config.train.dtype = "f32";
  const fs::path dir = folder_.path() / "ranks";
  make(dir, config);
  const auto ids = start_ranks(dir, 2);
  ASSERT_EQ(end_of(ids[0]), 0) << said_by(0);
  ASSERT_EQ(end_of(ids[1]), 0) << said_by(1);
  const double own = read_metrics(dir / "metrics.jsonl").at(0).loss;
  const double one = read_metrics(alone(config, 1) / "metrics.jsonl").at(0).loss;
  EXPECT_NEAR(own, one, one * 128 * std::ldexp(1.0, -24));
}

TEST_F(TrainingRanks, OfATaskMakeTheSameSumsToo) {
  RunConfig config = small_run(folder_.path(), 12);
  config.data = {};
  config.task.name = "addition";
  config.task.batch = 10;
  config.task.shortest = 1, config.task.longest = 3;
  config.model.vocab_size = 19;
  config.train.curriculum.clear();
  config.train.batch_tokens = TrainSection().batch_tokens;
  config.eval.windows = 13;
  const fs::path dir = folder_.path() / "ranks";
  make(dir, config);
  const auto ids = start_ranks(dir, 2);
  ASSERT_EQ(end_of(ids[0]), 0) << said_by(0);
  ASSERT_EQ(end_of(ids[1]), 0) << said_by(1);
  expect_same_training(dir, alone(config, 2));
}

// What a sample leaves out goes by its number in the whole batch, whoever reads it.
TEST_F(TrainingRanks, LeaveOutWhatOneProcessDoes) {
  RunConfig config = small_run(folder_.path(), 12);
  config.train.dropout = config.train.embedding_dropout = config.train.score_dropout = 0.2;
  config.train.drop_path = 0.5, config.train.label_smoothing = 0.1;
  config.train.keep_best = "bits", config.eval.every = 2;
  for (const int size : {2, 3}) {
    const fs::path dir = folder_.path() / ("ranks-" + std::to_string(size));
    make(dir, config);
    const auto ids = start_ranks(dir, size);
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_EQ(end_of(ids[static_cast<std::size_t>(rank)]), 0) << said_by(rank);
    }
    const fs::path one = alone(config, size);
    expect_same_training(dir, one);
    EXPECT_EQ(best_checkpoint(real(), dir / "checkpoints"),
              best_checkpoint(real(), one / "checkpoints"));
  }
  // And at once up to rounding, as without it.
  config.train.dtype = "f32", config.train.steps = 1;
  const fs::path dir = folder_.path() / "ranks";
  make(dir, config);
  const auto ids = start_ranks(dir, 2);
  ASSERT_EQ(end_of(ids[0]), 0) << said_by(0);
  ASSERT_EQ(end_of(ids[1]), 0) << said_by(1);
  const double own = read_metrics(dir / "metrics.jsonl").at(0).loss;
  const double whole = read_metrics(alone(config, 1) / "metrics.jsonl").at(0).loss;
  EXPECT_NEAR(own, whole, whole * 128 * std::ldexp(1.0, -24));
}

TEST_F(TrainingRanks, AKilledOneEndsTheOthersAndTheJobGoesOnAsIfNothingHadBeen) {
  RunConfig config = small_run(folder_.path(), 150);
  config.train.checkpoint_every = 1000;  // what is saved is saved for the loss of the other
  config.eval.every = 0;                 // one that is lost in a validation saves no step
  const fs::path dir = folder_.path() / "ranks";
  make(dir, config);
  auto ids = start_ranks(dir, 2);
  ASSERT_TRUE(has_points(dir, 3)) << said_by(0);
  ::kill(ids[1], SIGKILL);
  end_of(ids[1]);
  // The connection breaks; nothing waits for the 60 seconds.
  EXPECT_EQ(end_of(ids[0], 30), 4) << said_by(0);
  const protocol::JobStatus status = read_job(dir, CurveDetail::none);
  EXPECT_EQ(status.state, "failed");
  EXPECT_NE(status.message.find("rank 0 of 2 has lost another one: its connection broke ("),
            std::string::npos)
      << status.message;
  EXPECT_EQ(status.message.find(".cc"), std::string::npos) << status.message;  // Gloo's source
  const auto newest = find_newest_checkpoint(real(), dir / "checkpoints").newest;
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, static_cast<std::int64_t>(read_metrics(dir / "metrics.jsonl").size()));
  EXPECT_LT(newest->step, 150);

  ids = start_ranks(dir, 2);
  ASSERT_EQ(end_of(ids[0]), 0) << said_by(0);
  ASSERT_EQ(end_of(ids[1]), 0) << said_by(1);
  expect_same_training(dir, alone(config, 2));
}

TEST_F(TrainingRanks, OneThatSaysNothingIsGivenUpAfterTheTimeGiven) {
  const fs::path dir = folder_.path() / "ranks";
  RunConfig config = small_run(folder_.path(), 100'000);
  config.train.checkpoint_every = 100'000;
  make(dir, config);
  const auto ids = start_ranks(dir, 2, "5");
  ASSERT_TRUE(has_points(dir, 3)) << said_by(0);
  ::kill(ids[1], SIGSTOP);
  EXPECT_EQ(end_of(ids[0], 60), 4) << said_by(0);
  EXPECT_NE(said_by(0).find("has lost another one: it said nothing for 5 s"), std::string::npos)
      << said_by(0);
}

TEST_F(TrainingRanks, ASignalToAnyOfThemEndsAllWithACheckpoint) {
  const fs::path dir = folder_.path() / "ranks";
  RunConfig config = small_run(folder_.path(), 100'000);
  config.train.checkpoint_every = 100'000;
  make(dir, config);
  const auto ids = start_ranks(dir, 2);
  ASSERT_TRUE(has_points(dir, 2)) << said_by(0);
  write_request(real(), dir, JobRequest::pause);
  ASSERT_TRUE(within(60, [&] { return read_job(dir, CurveDetail::none).state == "paused"; }));
  write_request(real(), dir, JobRequest::resume);
  ASSERT_TRUE(within(60, [&] { return read_job(dir, CurveDetail::none).state == "running"; }));
  ::kill(ids[1], SIGTERM);
  EXPECT_EQ(end_of(ids[0]), 128 + SIGTERM) << said_by(0);
  EXPECT_EQ(end_of(ids[1]), 128 + SIGTERM) << said_by(1);
  EXPECT_EQ(read_job(dir, CurveDetail::none).state, "cancelled");
  const auto newest = find_newest_checkpoint(real(), dir / "checkpoints").newest;
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, static_cast<std::int64_t>(read_metrics(dir / "metrics.jsonl").size()));
}

// A large text is hashed and cut for minutes or hours, and no rank waits for that to leave.
TEST_F(TrainingRanks, ACancelIsObeyedWhileATextIsPrepared) {
  setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
  RunConfig config = small_run(folder_.path(), 5);
  fs::create_directories(folder_.path() / "texts");
  std::ofstream(folder_.path() / "texts/a.txt") << small_text();
  config.data.corpus = (folder_.path() / "texts").string();
  const fs::path dir = folder_.path() / "ranks";
  make(dir, config);
  write_request(real(), dir, JobRequest::cancel);
  auto ids = start_ranks(dir, 2);
  EXPECT_EQ(end_of(ids[0]), 130) << said_by(0);
  EXPECT_EQ(end_of(ids[1]), 130) << said_by(1);
  EXPECT_EQ(read_job(dir, CurveDetail::none).state, "cancelled");
  EXPECT_FALSE(fs::exists(folder_.path() / "cache/phasescope/tokens"));
  clear_request(real(), dir);
  ids = start_ranks(dir, 2);
  EXPECT_EQ(end_of(ids[0]), 0) << said_by(0);
  EXPECT_EQ(end_of(ids[1]), 0) << said_by(1);
  unsetenv("XDG_CACHE_HOME");
}

// Work that would go on for ever, in pieces of a millisecond.
class EndlessWork {
 public:
  void operator()(const std::function<void()>& look_up) {
    while (true) {
      look_up();
      ++pieces_;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::int64_t pieces() const { return pieces_; }

 private:
  std::atomic<std::int64_t> pieces_ = 0;
};

TEST(JointRequests, AreObeyedWhileARankWorks) {
  TemporaryFolder folder;
  const fs::path dir = folder.path() / "j";
  fs::create_directory(dir);
  std::ofstream(dir / job_file::config) << "{}";
  JobReporter reporter(real(), dir);
  reporter.set_state("running");
  const JobControl control(dir, reporter);
  const Ranks alone{RankPlace{}};
  JointRequests joint(alone, control, reporter);
  EndlessWork work;
  const auto state_is = [&](const char* state) {
    return within(
        60, [&] { return formats::json_from_file(dir / job_file::status).at("state") == state; });
  };
  bool left = false;
  std::thread working([&] {
    try {
      joint.obey_during(std::ref(work));
    } catch (const JobCancelled& leaving) {
      left = leaving.signal == 0;
    }
  });
  EXPECT_TRUE(within(60, [&] { return work.pieces() > 0; }));
  write_request(real(), dir, JobRequest::pause);
  EXPECT_TRUE(state_is("paused"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the piece it was at
  const std::int64_t before = work.pieces();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(work.pieces(), before);
  write_request(real(), dir, JobRequest::resume);
  EXPECT_TRUE(state_is("running"));
  EXPECT_TRUE(within(60, [&] { return work.pieces() > before; }));
  write_request(real(), dir, JobRequest::cancel);
  working.join();
  EXPECT_TRUE(left);
}

TEST(JointRequests, WhatTheWorkThrowsComesThrough) {
  TemporaryFolder folder;
  JobReporter reporter(real(), folder.path());
  const JobControl control(folder.path(), reporter);
  const Ranks alone{RankPlace{}};
  JointRequests joint(alone, control, reporter);
  EXPECT_THROW(joint.obey_during([](const auto&) { throw formats::bad_input("no such text"); }),
               formats::Error);
  int done = 0;
  joint.obey_during([&done](const auto& look_up) { look_up(), ++done; });
  EXPECT_EQ(done, 1);
}

// torchrun's LOCAL_RANK counts a machine's ranks, each of which has a device of its own.
TEST(RankPlaces, RanksOfAMachineHaveADeviceEach) {
  const RankPlace second{.rank = 5, .size = 8, .local = 1};
  EXPECT_EQ(device_of_rank("cuda", second), "cuda:1");
  EXPECT_EQ(device_of_rank("cuda:3", second), "cuda:3");
  EXPECT_EQ(device_of_rank("cpu", second), "cpu");
  EXPECT_EQ(device_of_rank("cuda", {.rank = 5, .size = 8}), "cuda");
  EXPECT_EQ(device_of_rank("cuda", {.rank = 0, .size = 1, .local = 0}), "cuda");
}

// No device of CUDA is here: each rank says so, in a sentence, and none waits for the others.
TEST_F(TrainingRanks, OnADeviceThatIsNotThereTheyEnd) {
  RunConfig config = small_run(folder_.path(), 5);
  const fs::path dir = folder_.path() / "ranks";
  make(dir, config);
  config.train.device = "cuda:99";  // a cluster's nodes have others than who made the folder
  std::ofstream(dir / "config.json") << to_json(config);
  const auto ids = start_ranks(dir, 2, "5");
  EXPECT_EQ(end_of(ids[0]), 3) << said_by(0);
  EXPECT_NE(said_by(0).find("the device cuda:99 is not there"), std::string::npos) << said_by(0);
  EXPECT_EQ(end_of(ids[1]), 4) << said_by(1);
}

TEST_F(TrainingRanks, AGroupThatIsNotWholeOrNotToldIsRefused) {
  const fs::path dir = folder_.path() / "ranks";
  make(dir, small_run(folder_.path(), 5));
  const Variables one{{"WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", std::to_string(free_port())},
                      {"PHASESCOPE_RANK_TIMEOUT", "1"}};
  EXPECT_EQ(end_of(start_rank(dir, 0, one)), 2);
  EXPECT_NE(said_by(0).find("rank 0 of 2 did not meet the others at 127.0.0.1"), std::string::npos)
      << said_by(0);
  EXPECT_EQ(end_of(start_rank(dir, 0, {{"WORLD_SIZE", "2"}})), 2);
  EXPECT_NE(said_by(0).find("MASTER_ADDR"), std::string::npos) << said_by(0);
  EXPECT_EQ(end_of(start_rank(dir, 2, one)), 2);
  EXPECT_NE(said_by(2).find("0 to 1"), std::string::npos) << said_by(2);
}

}  // namespace
}  // namespace phasescope::training
