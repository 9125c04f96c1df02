// Training on samples of tasks: what is read, what counts, and that it resumes bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/error.h"
#include "formats/json.h"
#include "model/checkpoints/open_model.h"
#include "tasks/vocabulary.h"
#include "tests/golden_folder.h"
#include "tests/temporary_folder.h"
#include "training/evals/task_answers.h"
#include "training/jobs/job.h"
#include "training/jobs/metrics_log.h"
#include "training/schedule.h"
#include "training/task_data.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kDesk = fs::path(PHASESCOPE_SOURCE) / "sample_configs/desk";

// The desk configurations of tasks, one of each form that can be trained.
std::vector<std::string> task_configs() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kDesk)) {
    if (entry.path().extension() != ".json") continue;
    if (!run_config_from_file(entry.path()).of_text()) {
      names.push_back(entry.path().stem().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

// Few steps of it.
RunConfig short_run(const std::string& name, std::int64_t steps) {
  RunConfig config = run_config_from_file(kDesk / (name + ".json"));
  config.task.batch = 16;
  config.train.steps = steps;
  config.train.warmup_steps = 2;
  config.train.checkpoint_every = 3;
  config.eval = {.every = 4, .windows = 20};
  return config;
}

Trainer task_trainer(const RunConfig& config) {
  return Trainer(config, std::make_shared<const TaskData>(config));
}

std::vector<double> losses_until(Trainer& trainer, std::int64_t until) {
  std::vector<double> losses;
  while (trainer.steps_done() < until) losses.push_back(trainer.step().loss);
  return losses;
}

RunConfig passkey_run() {
  RunConfig config;
  config.model.context = 512, config.model.layers = 1;
  config.model.width = 32, config.model.heads = 2, config.model.kv_heads = 2;
  config.model.ffn_width = 32;
  config.task.name = "passkey", config.task.batch = 2;
  config.task.shortest = 16, config.task.longest = 64;
  config.train.steps = 4;
  return config;
}

// Two trees of one shape, of which the second has its nodes' places moved to those of another tree:
// only who reads places tells them apart.
TEST(TreePlaces, ReachTheEncoderTheDecoderAndWhatIsBetweenThem) {
  RunConfig config = short_run("tree_copy_ape", 1);
  Trainer trainer = task_trainer(config);
  losses_until(trainer, 1);
  const tasks::Task& task = tasks::task_named("tree_copy");
  const tasks::Sample given = task.draw(3, {3}, 1);
  const auto losses = [&](const tasks::Sample& sample) {
    const std::vector<tasks::Sample> one = {sample};
    return answers_of(trainer.decoder(), task, one, {.backend = model::Backend::plain})[0].losses;
  };
  const auto exchanged = [](tasks::Ids places) {
    // The mirrored tree: of every place the bits behind the first one are turned over.
    for (std::int64_t& place : places) {
      std::int64_t ones = 1;
      while (2 * ones <= place) ones *= 2;
      if (place > 1) place ^= ones - 1;
    }
    return places;
  };
  const std::vector<double> before = losses(given);
  for (const auto part : {&tasks::Sample::input_places, &tasks::Sample::decoder_places}) {
    tasks::Sample moved = given;
    moved.*part = exchanged(moved.*part);
    ASSERT_NE(moved.*part, given.*part);
    EXPECT_NE(losses(moved), before);
  }
}

class TaskTraining : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Desk, TaskTraining, testing::ValuesIn(task_configs()),
                         [](const auto& info) { return info.param; });

TEST(TaskConfigs, EveryFormHasADeskFile) {
  std::vector<std::string> forms;
  for (const std::string& name : task_configs()) {
    const RunConfig config = run_config_from_file(kDesk / (name + ".json"));
    forms.emplace_back(tasks::name_of(tasks::task_named(config.task.name).info().form));
  }
  for (const char* form : {"causal", "placeholders", "encoder_decoder", "image"}) {
    EXPECT_NE(std::ranges::find(forms, form), forms.end()) << form;
  }
}

// An untrained model gives each of its ids about the same chance; one whose head is its embedding
// says what it has just read, which is the answer more seldom than that.
TEST_P(TaskTraining, BeginsAtTheUniformGuesserAndResumesBitForBit) {
  TemporaryFolder folder;
  const RunConfig config = short_run(GetParam(), 8);
  Trainer unbroken = task_trainer(config);
  const double first = losses_until(unbroken, 4).front();
  const double uniform = std::log(static_cast<double>(config.model.vocab_size));
  EXPECT_GT(first, uniform - 0.7);
  if (!config.model.tie_embeddings) {
    EXPECT_LT(first, uniform + 0.7);
  }
  const SaveOutcome saved = save_checkpoint(
      formats::real_file_system(), folder.path(), 4,
      [&](formats::FileSystem& files, const fs::path& to) { unbroken.write_files(files, to); },
      {2, {}, unbroken.state()});
  ASSERT_EQ(saved.message, "");
  const auto wanted = losses_until(unbroken, 8);

  Trainer resumed = task_trainer(config);
  resumed.load(*find_newest_checkpoint(formats::real_file_system(), folder.path()).newest);
  EXPECT_EQ(resumed.steps_done(), 4);
  EXPECT_EQ(losses_until(resumed, 8), wanted);
  EXPECT_EQ(resumed.state().at("tokens"), unbroken.state().at("tokens"));
  // Another seed draws other samples.
  RunConfig other = config;
  other.train.seed = 2;
  const Batch one = TaskData(config).batch(0), another = TaskData(other).batch(0);
  EXPECT_TRUE(one.inputs != another.inputs || one.pieces != another.pieces);
}

TEST_P(TaskTraining, ItsCheckpointOpensWithTheTasksSymbols) {
  TemporaryFolder folder;
  const RunConfig config = short_run(GetParam(), 1);
  Trainer trainer = task_trainer(config);
  losses_until(trainer, 1);
  trainer.write_files(formats::real_file_system(), folder.path());
  const auto model = model::open_model(folder.path().string());
  const tasks::Task& task = tasks::task_named(config.task.name);
  ASSERT_TRUE(model->tokenizer);
  EXPECT_EQ(model->tokenizer->name(), "symbols");
  EXPECT_EQ(model->tokenizer->vocab_size(), task.vocabulary());
  EXPECT_EQ(tasks::task_of_tokenizer(model->config().tokenizer), &task);
  EXPECT_EQ(model->config().attention.causal, !tasks::sees_both_ways(task));
  EXPECT_EQ(model->config().mlp.activation, "gelu");
}

// A job on a task ends, resumes after its last checkpoint was taken away, and says its validation.
TEST_P(TaskTraining, AJobGoesOn) {
  TemporaryFolder folder;
  const fs::path dir = folder.path() / "j";
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << to_json(short_run(GetParam(), 6));
  ASSERT_EQ(run_job(dir), 0);
  const auto points = read_metrics(dir / "metrics.jsonl");
  ASSERT_EQ(points.size(), 6u);
  EXPECT_TRUE(std::isfinite(points[3].validation_bits.value()));
  EXPECT_GE(points[3].validation_right.value(), 0);
  EXPECT_LE(points[3].validation_right.value(), 1);
  fs::remove_all(dir / "checkpoints/step-6");
  ASSERT_EQ(run_job(dir), 0);
  const auto again = read_metrics(dir / "metrics.jsonl");
  ASSERT_EQ(again.size(), 6u);
  for (std::size_t n = 0; n < 6; ++n) {
    EXPECT_EQ(again[n].loss, points[n].loss) << n;
    EXPECT_EQ(again[n].tokens, points[n].tokens) << n;
  }
}

// ---- What a batch is -----------------------------------------------------------------------------

// Addition: right of "=" alone, padded rows count nothing behind their end.
TEST(TaskData, CausalTargetsAreThoseThatCount) {
  const tasks::Task& task = tasks::task_named("addition");
  const std::vector<tasks::Sample> samples = {task.draw(1, {1, 1}, 0), task.draw(1, {3, 2}, 0)};
  const Batch batch = batch_of(task, samples, Counted::in_training);
  ASSERT_EQ(batch.windows, 2);
  EXPECT_EQ(batch.length, static_cast<std::int64_t>(samples[1].input.size()));
  EXPECT_TRUE(batch.key_mask.empty());  // a causal model never sees what stands behind
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t t = 0; t < static_cast<std::size_t>(batch.length); ++t) {
      const std::size_t at = row * static_cast<std::size_t>(batch.length) + t;
      const tasks::Sample& own = samples[row];
      const bool there = t < own.input.size();
      EXPECT_EQ(batch.inputs[at], there ? own.input[t] : task.info().padding);
      EXPECT_EQ(batch.targets[at], there && own.counts[t] != 0 ? own.target[t] : -1);
    }
  }
}

// binary_addition: the public loss trains the zeros behind the terminator, the metric passes over
// them; answers stand at the placeholders.
TEST(TaskData, PlaceholdersTrainWhatTheMetricDoesNotCount) {
  const tasks::Task& task = tasks::task_named("binary_addition");
  const std::vector<tasks::Sample> samples = {task.draw(1, {9}, 3)};
  const Batch trained = batch_of(task, samples, Counted::in_training);
  const Batch tested = batch_of(task, samples, Counted::in_metric);
  EXPECT_EQ(trained.length, 9 + 10);
  const auto counted = [](const Batch& batch) {
    return std::ranges::count_if(batch.targets, [](std::int64_t id) { return id >= 0; });
  };
  EXPECT_EQ(counted(trained), 10);
  EXPECT_LT(counted(tested), 10);
  EXPECT_EQ(first_answer(task, samples[0]), 9u);
  for (std::size_t t = 0; t < 9; ++t) EXPECT_EQ(trained.targets[t], -1);
  for (std::size_t t = 9; t < 19; ++t) EXPECT_EQ(trained.inputs[t], task.placeholder());
}

// Rows of several lengths that are read both ways need a mask.
TEST(TaskData, PaddingThatCouldBeSeenIsMasked) {
  const tasks::Task& task = tasks::task_named("seq_copy");
  const std::vector<tasks::Sample> samples = {task.draw(1, {3}, 0), task.draw(1, {5}, 0)};
  const Batch batch = batch_of(task, samples, Counted::in_training);
  EXPECT_EQ(batch.key_mask, (std::vector<std::int64_t>{1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(batch.decoder_length, 6);
  EXPECT_EQ(batch.answers(), 6);
}

json golden_rows(const std::string& name) {
  json rows = json::array();
  std::ifstream file(golden_path("tasks/" + name + ".jsonl"));
  for (std::string line; std::getline(file, line);) {
    const json row = json::parse(line);
    // Long trees are kept without their lists.
    const bool whole = row.contains("encoder_places") || !row.contains("encoder_input");
    if (row.at("kind") == "example" && whole) rows.push_back(row);
  }
  return rows;
}

// Row by row what the reference file has: ids, places, and what is read and answered.
TEST(TaskData, ATreesBatchIsThatOfTheReference) {
  for (const std::string name : {"tree_copy", "tree_rotate", "tree_c3", "tree_ops"}) {
    for (const std::string order : {"breadth", "depth"}) {
      const tasks::Task& task = tasks::task_named(order == "depth" ? name + "_depth" : name);
      const json rows = golden_rows(name);
      ASSERT_GT(rows.size(), 10u);
      std::vector<tasks::Sample> samples;
      for (const json& row : rows) samples.push_back(task.again(row));
      const Batch batch = batch_of(task, samples, Counted::in_training, model::Places::tree);
      const auto length = static_cast<std::size_t>(batch.length);
      const auto decoded = static_cast<std::size_t>(batch.decoder_length);
      for (std::size_t n = 0; n < rows.size(); ++n) {
        const auto places = rows[n].at("encoder_places").get<tasks::Ids>();
        const auto decoder = rows[n].at(order).at("decoder").get<tasks::Ids>();
        const auto decoder_places = rows[n].at(order).at("places").get<tasks::Ids>();
        for (std::size_t t = 0; t < length; ++t) {
          EXPECT_EQ(batch.positions[n * length + t], t < places.size() ? places[t] : 0);
        }
        for (std::size_t t = 0; t < decoded; ++t) {
          const bool there = t + 1 < decoder.size();
          const std::size_t at = n * decoded + t;
          EXPECT_EQ(batch.decoder_ids[at], there ? decoder[t] : 0) << name << order << n;
          EXPECT_EQ(batch.decoder_positions[at], there ? decoder_places[t] : 0);
          EXPECT_EQ(batch.targets[at], there ? decoder[t + 1] : -1);
        }
      }
      // Other encodings read nodes one after the other.
      EXPECT_TRUE(batch_of(task, samples, Counted::in_training).positions.empty());
    }
  }
}

// Piece n of 4 x 4 has the pixels of rows 4 (n div 4) .. and columns 4 (n mod 4) .. .
TEST(TaskData, AnImagesPiecesAreThoseOfTheReference) {
  const tasks::Task& task = tasks::task_named("shapes");
  const json rows = golden_rows("shapes");
  std::vector<tasks::Sample> samples;
  for (const json& row : rows) samples.push_back(task.again(row));
  const Batch batch = batch_of(task, samples, Counted::in_training, model::Places::grid);
  ASSERT_EQ(batch.length, 16);
  ASSERT_EQ(batch.piece, 16);
  EXPECT_EQ(batch.answers(), 1);
  for (std::size_t n = 0; n < rows.size(); ++n) {
    EXPECT_EQ(batch.targets[n], rows[n].at("target"));
    for (std::size_t r = 0; r < 16; ++r) {
      const auto line = rows[n].at("input").at(r).get<std::string>();
      for (std::size_t c = 0; c < 16; ++c) {
        const std::size_t piece = r / 4 * 4 + c / 4, place = r % 4 * 4 + c % 4;
        EXPECT_EQ(batch.pieces[n * 256 + piece * 16 + place], line[c] == '1' ? 1.0f : -1.0f);
      }
    }
  }
  for (std::size_t n = 0; n < 16; ++n) {
    EXPECT_EQ(batch.cells[2 * n], static_cast<std::int64_t>(n / 4));
    EXPECT_EQ(batch.cells[2 * n + 1], static_cast<std::int64_t>(n % 4));
  }
}

// Rows of a batch are a batch.
// By hand: moved down by one and to the left by one, then mirrored.
TEST(TaskData, AnImageIsMovedAndMirrored) {
  tasks::ImageShape shape{.rows = 2, .columns = 3, .channels = 2};
  const tasks::Ids image = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(moved_image(shape, image, 0, 0, false), image);
  EXPECT_EQ(moved_image(shape, image, 1, -1, false),
            (tasks::Ids{0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 0, 0}));
  EXPECT_EQ(moved_image(shape, image, 1, -1, true),
            (tasks::Ids{0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 3, 4}));
}

// Training images alone, each by a draw of its own, the same at every reading of the step.
TEST(TaskData, TrainingImagesAreMovedAsAsked) {
  RunConfig config = short_run("shapes_ape_grid", 8);
  const TaskData plain(config);
  config.task.crop = 2, config.task.flip = true;
  const TaskData moved(config);
  EXPECT_EQ(moved.batch(3).pieces, moved.batch(3).pieces);
  EXPECT_NE(moved.batch(3).pieces, plain.batch(3).pieces);
  EXPECT_NE(moved.batch(3, 1).pieces, moved.batch(3).pieces);
  EXPECT_EQ(moved.batch(3).targets, plain.batch(3).targets);
  EXPECT_EQ(moved.validation()[0].input, plain.validation()[0].input);
  RunConfig symbols = short_run("copy_rope", 8);
  symbols.task.crop = 2;
  EXPECT_THROW(run_config_from_json(to_json(symbols), "test"), formats::Error);
}

TEST(TaskData, APartOfABatchIsTheBatchOfItsSamples) {
  for (const std::string& name : task_configs()) {
    const RunConfig config = short_run(name, 4);
    const Batch whole = TaskData(config).batch(3);
    const Batch part = part_of(whole, 5, 9);
    const auto rows = [](const auto& values, std::int64_t width) {
      return std::vector(values.begin() + 5 * width, values.begin() + 9 * width);
    };
    EXPECT_EQ(part.windows, 4);
    EXPECT_EQ(part.inputs, rows(whole.inputs, whole.length));
    EXPECT_EQ(part.targets, rows(whole.targets, whole.answers()));
    if (!whole.positions.empty()) {
      EXPECT_EQ(part.positions, rows(whole.positions, whole.length));
    }
    if (!whole.pieces.empty()) {
      EXPECT_EQ(part.pieces, rows(whole.pieces, whole.length * whole.piece));
    }
    EXPECT_EQ(part_of(whole, 0, whole.windows).targets, whole.targets);
  }
}

// Byte tokens: the answer begins with a blank and its bytes are what counts.
TEST(TaskData, ATextsAnswerIsWhatCounts) {
  const tasks::Task& task = tasks::task_named("passkey");
  const formats::ByteTokenizer bytes(256, 0);
  const tasks::Sample drawn = task.draw(5, {64}, 0);
  const tasks::Sample read = as_ids(task, drawn, &bytes);
  std::string counted;
  for (std::size_t t = 0; t < read.target.size(); ++t) {
    if (read.counts[t] != 0) counted += static_cast<char>(read.target[t]);
  }
  EXPECT_EQ(counted, " " + drawn.answer);
  EXPECT_EQ(read.input.size(), 1 + drawn.prompt.size() + drawn.answer.size());  // with [BOS]
  EXPECT_EQ(read.input[0], 0);
}

TEST(TaskData, ATextTaskTrains) {
  const RunConfig config = passkey_run();
  Trainer trainer = task_trainer(config);
  EXPECT_NEAR(losses_until(trainer, 1).front(), std::log(256), 0.7);
}

TEST(TaskData, TheLongestLengthGrowsAlongALine) {
  RunConfig config = short_run("addition_rope", 100);
  config.task.growth = 0.4;
  const TaskData data(config);
  EXPECT_EQ(data.longest_at(0), 2);
  EXPECT_EQ(data.longest_at(20), 4);
  EXPECT_EQ(data.longest_at(39), 5);
  EXPECT_EQ(data.longest_at(40), 6);
  EXPECT_EQ(data.longest_at(99), 6);
}

// Lengths are as often as the configuration says: all cells alike, or about a mean.
TEST(TaskData, LengthsAreDrawnAsAsked) {
  RunConfig config = short_run("missing_duplicate_rope", 400);
  config.task.growth = 0, config.task.longest_at_first = 0;
  config.task.shortest = 2, config.task.longest = 5, config.task.batch = 1;
  std::map<std::int64_t, int> seen;
  const TaskData even(config);
  for (std::int64_t step = 0; step < 400; ++step) ++seen[even.batch(step).length];
  ASSERT_EQ(seen.size(), 4u);
  // Of 400 draws from 4: 100, five standard errors of 8.7.
  for (const auto& [length, count] : seen) EXPECT_NEAR(count, 100, 44) << length;

  config = short_run("copy_rope", 400);
  config.task.batch = 1;
  const TaskData normal(config);
  double sum = 0, squares = 0;
  for (std::int64_t step = 0; step < 400; ++step) {
    const auto length = static_cast<double>(normal.batch(step).length - 2);  // [SOS] and [EOS]
    sum += length, squares += length * length;
  }
  // N(20, 3) cut to integers is half a symbol shorter: five standard errors of 3 / sqrt(400).
  EXPECT_NEAR(sum / 400, 19.5, 0.75);
  EXPECT_NEAR(std::sqrt(squares / 400 - sum * sum / 160000), 3, 0.6);
}

TEST(TaskData, ASampleThatDoesNotFitIsRefused) {
  RunConfig config = short_run("addition_rope", 1);
  config.model.context = 16;
  EXPECT_THROW(TaskData{config}, formats::Error);
}

// In another order the same steps have other samples, and the first order is what there was before.
TEST(TaskData, Row34_AnotherOrderDrawsOtherSamples) {
  const TaskData data(short_run("addition_rope", 4));
  EXPECT_EQ(data.batch(2).inputs, data.batch(2, 0).inputs);
  EXPECT_NE(data.batch(2, 1).inputs, data.batch(2).inputs);
  EXPECT_NE(data.batch(2, 2).inputs, data.batch(2, 1).inputs);
  EXPECT_EQ(data.batch(2, 1).inputs, data.batch(2, 1).inputs);
}

// ---- Answers -------------------------------------------------------------------------------------

// Alone or beside a longer row: padding changes nothing of what a model answers.
TEST(TaskAnswers, PaddingChangesNothing) {
  for (const std::string& name : task_configs()) {
    const RunConfig config = short_run(name, 1);
    Trainer trainer = task_trainer(config);
    losses_until(trainer, 1);
    const tasks::Task& task = tasks::task_named(config.task.name);
    const auto at = [&](std::int64_t n) {
      return tasks::Ids(static_cast<std::size_t>(task.info().dimensions), n);
    };
    const std::vector<tasks::Sample> both = {task.draw(3, at(3), 0), task.draw(3, at(6), 0)};
    const std::vector<tasks::Sample> alone = {both[0]};
    const model::ForwardOptions options{.backend = model::Backend::plain};
    const auto beside = answers_of(trainer.decoder(), task, both, options);
    const auto single = answers_of(trainer.decoder(), task, alone, options);
    ASSERT_EQ(beside[0].losses.size(), single[0].losses.size());
    for (std::size_t t = 0; t < single[0].losses.size(); ++t) {
      // float32 logits of size 1 after sums of a hundred terms.
      EXPECT_NEAR(beside[0].losses[t], single[0].losses[t], 2e-5) << name << " " << t;
    }
  }
}

// ---- Schedule and configuration ------------------------------------------------------------------

TEST(Schedule, HoldsAndFallsAlongALine) {
  TrainSection train;
  train.steps = 1000, train.warmup_steps = 100, train.learning_rate = 1;
  train.schedule = "linear", train.hold = 0.6, train.final_share = 0.05;
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 49), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 99), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 600), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(train, 999), 0.05);
  EXPECT_NEAR(learning_rate_at(train, 799), 1 - 0.95 * 199 / 399, 1e-12);
}

std::string problem_of(const json& changes) {
  json config = formats::json_from_file(kDesk / "addition_rope.json");
  config.merge_patch(changes);
  try {
    run_config_from_json(config, "test.json");
  } catch (const formats::Error& error) {
    return error.full_text();
  }
  return "";
}

TEST(TaskConfigs, WhatDoesNotFitATaskIsSaid) {
  EXPECT_EQ(problem_of(json::object()), "");
  const auto says = [](const json& changes, const std::string& words) {
    EXPECT_NE(problem_of(changes).find(words), std::string::npos)
        << changes << ": " << problem_of(changes);
  };
  says({{"task", {{"name", "adition"}}}}, "addition");
  says({{"task", {{"name", ""}}}}, "task.name");
  says({{"model", {{"vocab_size", 20}}}}, "must be 19, the ids of addition");
  says({{"model", {{"causal", false}}}}, "must be true for addition");
  says({{"model", {{"encoder_layers", 2}}}}, "must be 0 for addition");
  says({{"task", {{"name", "shapes"}}}}, "model.patch_side");
  says({{"task", {{"name", "shapes"}}}}, "must be softmax for shapes");
  says({{"task", {{"name", "tree_copy"}}}}, "must be at least 1, since tree_copy");
  says({{"task", {{"name", "tree_copy"}}}, {"encoding", {{"key", "ape_tree"}, {"branches", 3}}}},
       "must be 2 for the nodes of tree_copy");
  says({{"model", {{"patch_side", 4}}}}, "which is no image");
  says({{"train", {{"average", 1}}}}, "must be 0 to below 1");
  says({{"train", {{"spike", "stop"}}}}, "must be off, skip or rewind");
  says({{"start", {{"lora_alpha", 2}}}}, "start.lora_rank");
  says({{"task", {{"longest", 0}}}}, "task.longest");
  says({{"task", {{"growth", 0}}}}, "task.longest_at_first");
  says({{"train", {{"batch_tokens", 4096}}}}, "task.batch");
  says({{"data", {{"corpus", "a.txt"}}}}, "reads none");
  says({{"train", {{"schedule", "steps"}}}}, "must be cosine or linear");
}

}  // namespace
}  // namespace phasescope::training
