// The checkpoint of the best validation: which it is, that it stays, is named, opens and is
// remembered.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/error.h"
#include "model/checkpoints/open_model.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/checkpoint.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

// The validation's bytes are none of the training's: the longer it learns, the worse they are
// guessed, so that the first validation is the best.
class BestCheckpoint : public testing::Test {
 protected:
  RunConfig run_that_gets_worse() const {
    RunConfig config = small_run(folder_.path(), 21);
    config.train.dtype = "f32";
    config.train.keep_best = "bits", config.eval.every = 2, config.eval.windows = 2;
    config.train.curriculum.clear();
    config.data.validation = (folder_.path() / "others.txt").string();
    std::ofstream(config.data.validation) << std::string(100, 'Q') << std::string(100, 'X');
    return config;
  }
  static Trainer trainer(const RunConfig& config) {
    auto corpus = std::make_shared<const Corpus>(
        Corpus::open(config.data.corpus, config.data, config.model.context));
    return Trainer(config, corpus,
                   read_validation_texts(config.data.validation, config.model.context));
  }
  fs::path job(const char* name, const RunConfig& config) const {
    const fs::path dir = folder_.path() / name;
    fs::create_directories(dir);
    std::ofstream(dir / "config.json") << to_json(config);
    return dir;
  }
  // Of the validations that metrics.jsonl has.
  static std::pair<std::int64_t, double> best_of(const fs::path& dir) {
    std::pair<std::int64_t, double> best{0, 1e9};
    for (const protocol::MetricPoint& point : read_metrics(dir / "metrics.jsonl")) {
      const bool better = point.validation_bits && *point.validation_bits < best.second;
      if (better) best = {point.step, *point.validation_bits};
    }
    return best;
  }
  static std::vector<std::int64_t> steps_in(const fs::path& dir) {
    return checkpoint_steps(formats::real_file_system(), dir / "checkpoints");
  }

  TemporaryFolder folder_;
};

// It stays beside the newest two, verifies, and opens: what its weights get in the validation is
// what the metrics say of its step.
TEST_F(BestCheckpoint, StaysIsNamedAndOpens) {
  const RunConfig config = run_that_gets_worse();
  const fs::path dir = job("best", config);
  ASSERT_EQ(run_job(dir), 0) << log_tail(dir, 20);
  const auto [best, bits] = best_of(dir);
  ASSERT_EQ(best, 2);
  EXPECT_EQ(steps_in(dir), (std::vector<std::int64_t>{best, 14, 21}));
  formats::FileSystem& files = formats::real_file_system();
  EXPECT_EQ(best_checkpoint(files, dir / "checkpoints"), best);
  const Checkpoint kept = verify_checkpoint(files, checkpoint_folder(dir / "checkpoints", best));
  Trainer there = trainer(config);
  there.load(kept);
  protocol::NoProgress progress;
  EXPECT_EQ(there.validation(progress).bits, bits);
  const auto opened = model::open_model((dir / "checkpoints/best").string());
  EXPECT_TRUE(opened->decoder.weights().embedding.equal(there.decoder().weights().embedding));
  const auto last = model::open_model(dir.string());
  EXPECT_FALSE(last->decoder.weights().embedding.equal(opened->decoder.weights().embedding));
  // Without the option the losses are the same, and the early one is gone.
  RunConfig without = config;
  without.train.keep_best = "off";
  const fs::path other = job("off", without);
  ASSERT_EQ(run_job(other), 0);
  EXPECT_EQ(steps_in(other), (std::vector<std::int64_t>{14, 21}));
  EXPECT_FALSE(fs::exists(other / "checkpoints/best"));
  const auto a = read_metrics(dir / "metrics.jsonl"), b = read_metrics(other / "metrics.jsonl");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t n = 0; n < a.size(); ++n) EXPECT_EQ(a[n].loss, b[n].loss) << n;
}

// Resumed from before its last steps the job remembers which was the best, and keeps it; one that
// is damaged is said, and opens no more.
TEST_F(BestCheckpoint, IsRememberedByAResume) {
  const fs::path dir = job("best", run_that_gets_worse());
  ASSERT_EQ(run_job(dir), 0) << log_tail(dir, 20);
  const std::int64_t best = best_of(dir).first;
  const fs::path folder = checkpoint_folder(dir / "checkpoints", best);
  fs::remove_all(dir / "checkpoints/step-21");
  fs::remove(dir / "checkpoints/best");  // as if killed before the file was written
  ASSERT_EQ(run_job(dir), 0);
  EXPECT_EQ(steps_in(dir), (std::vector<std::int64_t>{best, 14, 21}));
  EXPECT_EQ(best_checkpoint(formats::real_file_system(), dir / "checkpoints"), best);
  std::ofstream(folder / "model.safetensors", std::ios::app) << "x";
  fs::remove_all(dir / "checkpoints/step-21");
  ASSERT_EQ(run_job(dir), 0);
  const std::string message = read_job(dir, CurveDetail::none).message;
  EXPECT_NE(message.find("the best validation, step-" + std::to_string(best)), std::string::npos)
      << message;
  EXPECT_THROW(model::open_model((dir / "checkpoints/best").string()), formats::Error);
}

// By the share of a task's targets that are right.
TEST_F(BestCheckpoint, MayBeThatOfTheMostTargetsRight) {
  RunConfig config = run_config_from_file(fs::path(PHASESCOPE_SOURCE) /
                                          "sample_configs/desk/missing_duplicate_rope.json");
  config.task.batch = 8;
  config.train.steps = 12, config.train.checkpoint_every = 100, config.train.keep_best = "right";
  config.eval.every = 1, config.eval.windows = 19;
  const fs::path dir = job("right", config);
  ASSERT_EQ(run_job(dir), 0) << log_tail(dir, 20);
  std::int64_t best = 0;
  double right = -1;
  for (const protocol::MetricPoint& point : read_metrics(dir / "metrics.jsonl")) {
    if (*point.validation_right <= right) continue;
    best = point.step, right = *point.validation_right;
  }
  EXPECT_EQ(best_checkpoint(formats::real_file_system(), dir / "checkpoints"), best);
}

}  // namespace
}  // namespace phasescope::training
