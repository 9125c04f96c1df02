// What a training leaves out of its steps at random, and smoothed labels: that steps have them and
// validations have not, and that no way of cutting a training into parts changes them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/error.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/checkpoint.h"
#include "training/task_data.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using Change = std::function<void(TrainSection&)>;

const std::map<std::string, Change>& options() {
  static const std::map<std::string, Change> all = {
      {"dropout", [](TrainSection& t) { t.dropout = 0.1; }},
      {"embedding_dropout", [](TrainSection& t) { t.embedding_dropout = 0.1; }},
      {"score_dropout", [](TrainSection& t) { t.score_dropout = 0.1; }},
      {"drop_path", [](TrainSection& t) { t.drop_path = 0.5; }},
      {"label_smoothing", [](TrainSection& t) { t.label_smoothing = 0.1; }},
  };
  return all;
}

void switch_all_on(TrainSection& train) {
  for (const auto& [name, change] : options()) change(train);
}

class TrainingDrops : public testing::Test {
 protected:
  RunConfig text_run(std::int64_t steps, const Change& change) const {
    RunConfig config = small_run(folder_.path(), steps);
    config.train.dtype = "f32";
    change(config.train);
    return config;
  }
  // A task's desk recipe in small.
  static RunConfig task_run(const std::string& name, std::int64_t steps, const Change& change) {
    RunConfig config = run_config_from_file(fs::path(PHASESCOPE_SOURCE) / "sample_configs/desk" /
                                            (name + ".json"));
    config.task.batch = 12;
    config.train.steps = steps, config.train.warmup_steps = 2;
    config.eval = {.every = 4, .windows = 20};
    change(config.train);
    return config;
  }
  static Trainer trainer(const RunConfig& config) {
    if (!config.of_text()) return Trainer(config, std::make_shared<const TaskData>(config));
    auto corpus = std::make_shared<const Corpus>(
        Corpus::open(config.data.corpus, config.data, config.model.context));
    return Trainer(config, corpus,
                   read_validation_texts(config.data.validation, config.model.context));
  }
  static std::vector<double> losses_until(Trainer& one, std::int64_t until) {
    std::vector<double> losses;
    while (one.steps_done() < until) losses.push_back(one.step().loss);
    return losses;
  }
  static std::vector<double> losses(const RunConfig& config) {
    Trainer one = trainer(config);
    return losses_until(one, config.train.steps);
  }

  TemporaryFolder folder_;
};

TEST_F(TrainingDrops, EachOptionChangesStepsAndNoValidationAndNoProbe) {
  const Change none = [](TrainSection&) {};
  protocol::NoProgress progress;
  const RunConfig plain = text_run(2, none);
  Trainer without = trainer(plain);
  const double bits = without.validation(progress).bits;
  const HeadValues heads = without.head_values();
  const protocol::MetricPoint own = without.step();
  for (const auto& [name, change] : options()) {
    Trainer with = trainer(text_run(2, change));
    EXPECT_EQ(with.validation(progress).bits, bits) << name;
    EXPECT_EQ(with.head_values(), heads) << name;
    const protocol::MetricPoint first = with.step();
    EXPECT_NE(first.gradient_norm, own.gradient_norm) << name;
    // Whatever the labels, the loss that is told is that of the targets.
    EXPECT_EQ(first.loss == own.loss, name == "label_smoothing") << name;
    EXPECT_NEAR(first.loss, own.loss, 1) << name;
    EXPECT_NE(with.step().loss, first.loss) << name;
  }
}

// Each step draws anew, by the seed: a text of one letter has the same batch for every step, and at
// this rate no weight changes.
TEST_F(TrainingDrops, EveryStepDrawsAnewAndByTheSeedAlone) {
  const std::string text = (folder_.path() / "letter.txt").string();
  std::ofstream(text) << std::string(5000, 'a');
  const auto losses_with = [&](double dropout) {
    RunConfig config = text_run(2, [&](TrainSection& t) { t.dropout = dropout; });
    config.data.corpus = text;
    config.train.learning_rate = 1e-30, config.train.curriculum.clear();
    return losses(config);
  };
  const auto drawn = losses_with(0.5), still = losses_with(0);
  EXPECT_EQ(still[0], still[1]);
  EXPECT_NE(drawn[0], drawn[1]);
  EXPECT_EQ(losses_with(0.5), drawn);
}

// Each sample leaves out the same in whatever part it is read: the first loss is that of the whole
// step up to the order of float32 sums.
TEST_F(TrainingDrops, PartsOfAStepLeaveOutWhatTheStepDoes) {
  for (const char* task : {"", "addition_rope", "copy_rope", "shapes_ape_grid"}) {
    RunConfig config = *task ? task_run(task, 1, switch_all_on) : text_run(1, switch_all_on);
    const double whole = losses(config).front();
    for (const std::int64_t parts : {2, 3, 5}) {
      config.train.accumulate = parts;
      EXPECT_NEAR(losses(config).front(), whole, 1e-5) << task << parts;
    }
  }
}

TEST_F(TrainingDrops, LayersThatRunAgainLeaveOutTheSame) {
  for (const char* task : {"", "missing_duplicate_rope"}) {
    RunConfig config = *task ? task_run(task, 6, switch_all_on) : text_run(6, switch_all_on);
    const auto kept = losses(config);
    config.train.recompute = true;
    EXPECT_EQ(losses(config), kept) << task;
  }
}

// A text, an encoder, an encoder-decoder and images, through a checkpoint.
TEST_F(TrainingDrops, ResumeBitForBit) {
  for (const char* task : {"", "missing_duplicate_rope", "copy_rope", "shapes_ape_grid"}) {
    const RunConfig config = *task ? task_run(task, 8, switch_all_on) : text_run(8, switch_all_on);
    TemporaryFolder saved;
    Trainer unbroken = trainer(config);
    losses_until(unbroken, 4);
    const SaveOutcome outcome = save_checkpoint(
        formats::real_file_system(), saved.path(), 4,
        [&](formats::FileSystem& files, const fs::path& to) { unbroken.write_files(files, to); },
        {2, {}, unbroken.state()});
    ASSERT_EQ(outcome.message, "");
    Trainer resumed = trainer(config);
    resumed.load(*find_newest_checkpoint(formats::real_file_system(), saved.path()).newest);
    EXPECT_EQ(losses_until(resumed, 8), losses_until(unbroken, 8)) << task;
  }
}

// The gradient of the first step is that of the definition over what the first weights say of its
// batch, in one part and in three; the loss that is told has nothing smoothed.
TEST_F(TrainingDrops, SmoothedLabelsAreLearntAndNotTold) {
  RunConfig config = task_run("missing_duplicate_rope", 1,
                              [](TrainSection& t) { t.label_smoothing = 0.3, t.clip = 0; });
  Trainer one = trainer(config);
  Batch batch = TaskData(config).batch(0);
  const at::Tensor ids =
      at::from_blob(batch.inputs.data(), {batch.windows, batch.length}, at::kLong);
  const at::Tensor logits = one.decoder().forward(ids, one.forward_options(0));
  const at::Tensor chances = at::log_softmax(logits.to(at::kDouble), -1).flatten(0, 1);
  at::Tensor learnt = at::zeros({}, at::kDouble), told = learnt;
  double count = 0;
  for (std::size_t n = 0; n < batch.targets.size(); ++n) {
    if (batch.targets[n] < 0) continue;
    const at::Tensor row = chances[static_cast<std::int64_t>(n)];
    learnt = learnt - 0.7 * row[batch.targets[n]] - 0.3 * row.mean();
    told = told - row[batch.targets[n]];
    ++count;
  }
  (learnt / count).backward();
  double squares = 0;
  const model::Decoder& decoder = one.decoder();
  for (const auto& [name, tensor] :
       model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights())) {
    if (tensor.grad().defined()) squares += tensor.grad().pow(2).sum(at::kDouble).item<double>();
  }
  ASSERT_GT(squares, 0);
  for (const std::int64_t parts : {1, 3}) {
    config.train.accumulate = parts;
    const protocol::MetricPoint point = trainer(config).step();
    // Sums of float32.
    EXPECT_NEAR(point.gradient_norm.value(), std::sqrt(squares), 1e-4 * std::sqrt(squares))
        << parts;
    EXPECT_NEAR(point.loss, told.item<double>() / count, 1e-5) << parts;
  }
}

// What the papers' recipes name, in the files of them.
TEST_F(TrainingDrops, SampleConfigurationsHaveWhatTheirRecipesName) {
  const fs::path folder = fs::path(PHASESCOPE_SOURCE) / "sample_configs";
  const TrainSection image = run_config_from_file(folder / "images/cifar10_ape_grid.json").train;
  for (const double share :
       {image.embedding_dropout, image.score_dropout, image.drop_path, image.label_smoothing}) {
    EXPECT_EQ(share, 0.1);
  }
  EXPECT_EQ(image.dropout, 0);  // drop path stands in its place
  EXPECT_EQ(image.keep_best, "right");
  for (const auto& entry : fs::directory_iterator(folder / "chomsky")) {
    RunConfig config = run_config_from_file(entry.path());
    EXPECT_EQ(config.train.dropout, 0.1) << entry.path();
    config.task.batch = 2, config.train.steps = 2, config.task.longest = 6;
    for (const double loss : losses(config)) EXPECT_TRUE(std::isfinite(loss)) << entry.path();
  }
}

TEST_F(TrainingDrops, SharesThatLeaveNothingAreRefused) {
  const auto refused = [&](const Change& change) {
    const RunConfig config = text_run(2, change);
    EXPECT_THROW(run_config_from_json(to_json(config), "run"), formats::Error);
  };
  refused([](TrainSection& t) { t.dropout = 1; });
  refused([](TrainSection& t) { t.embedding_dropout = -0.1; });
  refused([](TrainSection& t) { t.score_dropout = 1; });
  refused([](TrainSection& t) { t.drop_path = 1; });  // of the second layer
  refused([](TrainSection& t) { t.label_smoothing = 1.1; });
  refused([](TrainSection& t) { t.keep_best = "right"; });  // of a text
  const RunConfig allowed = text_run(2, [](TrainSection& t) { t.drop_path = 0.9; });
  EXPECT_NO_THROW(run_config_from_json(to_json(allowed), "run"));
}

}  // namespace
}  // namespace phasescope::training
