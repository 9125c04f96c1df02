#include "training/trainer.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "formats/error.h"
#include "formats/faulty_file_system.h"
#include "model/checkpoints/open_model.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/job_lock.h"
#include "training/jobs/metrics_log.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Trainer trainer_of(const RunConfig& config) {
  auto corpus = std::make_shared<const Corpus>(
      Corpus::open(config.data.corpus, config.data, config.model.context));
  return Trainer(config, corpus,
                 read_validation_texts(config.data.validation, config.model.context));
}

std::vector<double> losses_of(Trainer& trainer, std::int64_t until) {
  std::vector<double> losses;
  while (trainer.steps_done() < until) losses.push_back(trainer.step().loss);
  return losses;
}

TEST(Trainer, TheLossFallsFromThatOfGuessing) {
  TemporaryFolder folder;
  RunConfig config = small_run(folder.path(), 120);
  Trainer trainer = trainer_of(config);
  const std::vector<double> losses = losses_of(trainer, 120);
  // Random weights guess one of 256 bytes; the text has about 30 that are used.
  EXPECT_NEAR(losses.front(), std::log(256), 0.5);
  EXPECT_LT(losses.back(), 0.55 * losses.front());
}

TEST(Trainer, PointsSayWhatWasDone) {
  TemporaryFolder folder;
  const RunConfig config = small_run(folder.path(), 10);
  Trainer trainer = trainer_of(config);
  const protocol::MetricPoint first = trainer.step();
  EXPECT_EQ(first.step, 1);
  EXPECT_EQ(first.tokens, 128);
  EXPECT_EQ(first.length, 8);
  EXPECT_DOUBLE_EQ(first.lr, config.train.learning_rate / 5);
  EXPECT_GT(*first.gradient_norm, 0);
  losses_of(trainer, 9);
  const protocol::MetricPoint last = trainer.step();
  EXPECT_EQ(last.length, 32);
  EXPECT_EQ(last.tokens, 1280);
  EXPECT_TRUE(trainer.done());
}

TEST(Trainer, SaysWhatRanAttention) {
  TemporaryFolder folder;
  Trainer fused = trainer_of(small_run(folder.path(), 2));
  EXPECT_EQ(fused.kernel(), "none");
  fused.step();
  EXPECT_EQ(fused.kernel(), model::fused_kernel_name());
  // CoPE's positions depend on the content: there is no fused form, whatever was asked for.
  Trainer plain = trainer_of(small_run(folder.path(), 2, {{"key", "cope"}}));
  plain.step();
  EXPECT_EQ(
      plain.kernel(),
      "plain (a distance that is counted from the scores of all keys between has no fused form)");
}

// The same seed gives the same bits, another one does not.
TEST(Trainer, IsDeterministic) {
  TemporaryFolder folder;
  RunConfig config = small_run(folder.path(), 10);
  Trainer a = trainer_of(config), b = trainer_of(config);
  const auto losses = losses_of(a, 10);
  EXPECT_EQ(losses_of(b, 10), losses);
  config.train.seed = 2;
  Trainer c = trainer_of(config);
  EXPECT_NE(losses_of(c, 10), losses);
}

// Every encoding of the bundled models, and both dtypes: a run that went through a checkpoint makes
// the same losses, bit for bit, as one that did not.
TEST(Trainer, ResumesBitForBit) {
  const std::map<std::string, json> encodings = {
      {"none", {{"key", "none"}}},
      {"rope", {{"key", "rope"}}},
      {"alibi", {{"key", "alibi"}}},
      {"cape", {{"key", "cape"}, {"base", "kerple_log"}}},
      {"tape", {{"key", "tape"}}},
      {"tape_without_equivariance", {{"key", "tape"}, {"equivariance", false}}},
      {"randomized_rope", {{"key", "randomized_rope"}, {"draw", "layer"}}},
      {"tapa", {{"key", "tapa"}, {"phase_gain", 0.1}}},
      {"tapa_norm", {{"key", "tapa"}, {"phase_norm", 0.3}}}};
  for (const auto& [name, encoding] : encodings) {
    for (const char* dtype : {"f32", "bf16"}) {
      TemporaryFolder folder;
      RunConfig config = small_run(folder.path(), 12, encoding);
      config.train.dtype = dtype;
      Trainer unbroken = trainer_of(config);
      losses_of(unbroken, 6);
      const SaveOutcome saved = save_checkpoint(
          formats::real_file_system(), folder.path(), 6,
          [&](formats::FileSystem& files, const fs::path& to) { unbroken.write_files(files, to); },
          {2, {}, unbroken.state()});
      ASSERT_EQ(saved.message, "") << name;
      const auto wanted = losses_of(unbroken, 12);

      Trainer resumed = trainer_of(config);
      resumed.load(*find_newest_checkpoint(formats::real_file_system(), folder.path()).newest);
      EXPECT_EQ(resumed.steps_done(), 6);
      EXPECT_EQ(losses_of(resumed, 12), wanted) << name << " " << dtype;
    }
  }
}

// The map in front of an encoding that draws nothing itself.
TEST(Trainer, DrawnPositionsResumeBitForBit) {
  TemporaryFolder folder;
  RunConfig config = small_run(folder.path(), 8);
  config.positions.map = "random";
  Trainer unbroken = trainer_of(config);
  losses_of(unbroken, 4);
  const SaveOutcome saved = save_checkpoint(
      formats::real_file_system(), folder.path(), 4,
      [&](formats::FileSystem& files, const fs::path& to) { unbroken.write_files(files, to); },
      {2, {}, unbroken.state()});
  ASSERT_EQ(saved.message, "");
  const auto wanted = losses_of(unbroken, 8);
  const auto checkpoint =
      *find_newest_checkpoint(formats::real_file_system(), folder.path()).newest;
  Trainer resumed = trainer_of(config);
  resumed.load(checkpoint);
  EXPECT_EQ(losses_of(resumed, 8), wanted);
  // Not the losses of a run that keeps its places.
  config.positions.map = "identity";
  Trainer placed = trainer_of(config);
  losses_of(placed, 4);
  EXPECT_NE(losses_of(placed, 8), wanted);
  // The checkpoint says so, and reads a text at its own places.
  const auto model = model::open_model(checkpoint.folder.string());
  EXPECT_EQ(model->config().positions.map, "random");
  EXPECT_EQ(model->config().positions.draw, "training");
}

TEST(Trainer, EveryStepHasAShiftAndADrawOfItsOwn) {
  TemporaryFolder folder;
  Trainer trainer = trainer_of(small_run(folder.path(), 4, {{"key", "tape"}}));
  Trainer again = trainer_of(small_run(folder.path(), 4, {{"key", "tape"}}));
  std::set<std::uint64_t> draws;
  std::int64_t least = 1000, most = -1;
  double sum = 0;
  constexpr int kSteps = 4000;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const model::ForwardOptions options = trainer.forward_options(step);
    EXPECT_EQ(options.shift, again.forward_options(step).shift);
    EXPECT_EQ(options.draw, again.forward_options(step).draw);
    least = std::min(least, options.shift);
    most = std::max(most, options.shift);
    sum += static_cast<double>(options.shift);
    draws.insert(*options.draw);
  }
  EXPECT_EQ(draws.size(), static_cast<std::size_t>(kSteps));
  // Both ends of 0..2 context, of which each of 4000 draws is one in 65.
  EXPECT_EQ(least, 0);
  EXPECT_EQ(most, 64);
  EXPECT_NEAR(sum / kSteps, 32, 1.5);  // five standard errors of 18.8 / sqrt(4000)
  Trainer still =
      trainer_of(small_run(folder.path(), 4, {{"key", "tape"}, {"train_shift", false}}));
  for (std::int64_t step = 0; step < 20; ++step) EXPECT_EQ(still.forward_options(step).shift, 0);
}

// Seen where a shift changes what a model computes: its updates start at zero, so from step 2 on.
TEST(Trainer, TheShiftReachesTheModel) {
  TemporaryFolder folder;
  const json tape = {{"key", "tape"}, {"equivariance", false}};
  json still = tape;
  still["train_shift"] = false;
  Trainer shifted = trainer_of(small_run(folder.path(), 6, tape));
  Trainer placed = trainer_of(small_run(folder.path(), 6, still));
  const auto losses = losses_of(shifted, 6), others = losses_of(placed, 6);
  EXPECT_NEAR(losses.front(), others.front(), 1e-3);  // bfloat16 products of other angles
  EXPECT_NE(losses.back(), others.back());
}

TEST(Trainer, ACheckpointIsAModelThatOpens) {
  TemporaryFolder folder;
  const RunConfig config = small_run(folder.path(), 3);
  Trainer trainer = trainer_of(config);
  losses_of(trainer, 3);
  trainer.write_files(formats::real_file_system(), folder.path());
  const auto model = model::open_model(folder.path().string());
  EXPECT_EQ(model->config().context, 32);
  EXPECT_EQ(model->config().encoding.key, "rope");
  ASSERT_TRUE(model->tokenizer);
  EXPECT_EQ(model->tokenizer->bos_id(), 0);
}

TEST(Trainer, Row32RefusesAnotherText) {
  TemporaryFolder folder;
  const RunConfig config = small_run(folder.path(), 4);
  Trainer trainer = trainer_of(config);
  losses_of(trainer, 1);
  save_checkpoint(
      formats::real_file_system(), folder.path(), 1,
      [&](formats::FileSystem& files, const fs::path& to) { trainer.write_files(files, to); },
      {2, {}, trainer.state()});
  std::ofstream(config.data.corpus, std::ios::app) << "more";
  Trainer other = trainer_of(config);
  const auto found = find_newest_checkpoint(formats::real_file_system(), folder.path());
  EXPECT_THROW(other.load(*found.newest), formats::Error);
}

TEST(Trainer, Row36SaysWhatACheckpointWasMadeWithOtherwise_Risk18) {
  TemporaryFolder folder;
  RunConfig config = small_run(folder.path(), 4);
  const nlohmann::json state = trainer_of(config).state();
  EXPECT_EQ(trainer_of(config).differences_from(state), "");
  config.train.learning_rate = 0.5;
  const std::string said = trainer_of(config).differences_from(state);
  EXPECT_TRUE(said.starts_with("train.learning_rate (")) << said;
  EXPECT_TRUE(said.ends_with(" before, now 0.5)")) << said;
  nlohmann::json other = trainer_of(config).state();
  other["made_with"]["threads"] = 1000;
  EXPECT_TRUE(trainer_of(config).differences_from(other).starts_with("threads (1000 before"));
  // What breaks the bits of a step beside the configuration, each by its name.
  for (const auto& [key, value] : {std::pair<const char*, json>{"version", "0.0.1"},
                                   {"instructions", "DEFAULT of another machine"},
                                   {"threads", 1000}}) {
    json changed = trainer_of(config).state();
    changed["made_with"][key] = value;
    const std::string words = trainer_of(config).differences_from(changed);
    EXPECT_EQ(words.find(std::string(key) + " (" + value.dump() + " before"), 0u) << words;
  }
  // Ranks of one machine have a GPU each; whoever resumes has the first, or another one.
  nlohmann::json of_a_rank = trainer_of(config).state();
  of_a_rank["config"]["train"]["device"] = "cpu:1";
  EXPECT_EQ(trainer_of(config).differences_from(of_a_rank), "");
  of_a_rank["config"]["train"]["device"] = "cuda:1";
  EXPECT_EQ(trainer_of(config).differences_from(of_a_rank),
            "train.device (\"cuda\" before, now \"cpu\")");
  RunConfig reseeded = config;
  reseeded.train.seed += 1;
  EXPECT_NE(trainer_of(config).differences_from(trainer_of(reseeded).state()).find("train.seed ("),
            std::string::npos);
}

TEST(Trainer, RefusesACheckpointOfAnotherSize) {
  TemporaryFolder folder;
  RunConfig config = small_run(folder.path(), 2);
  Trainer wide = trainer_of(config);
  save_checkpoint(
      formats::real_file_system(), folder.path(), 0,
      [&](formats::FileSystem& files, const fs::path& into) { wide.write_files(files, into); },
      {.state = wide.state()});
  const auto found = find_newest_checkpoint(formats::real_file_system(), folder.path());
  // Norms of one value would be spread over the whole row.
  config.model.width = 64;
  Trainer other = trainer_of(config);
  EXPECT_THROW(other.load(*found.newest), formats::Error);
}

TEST(Trainer, AnEncodingsUnknownOptionIsAnError) {
  RunConfig config;
  config.encoding = {{"key", "tapa"}, {"phase_gian", 0.1}};
  try {
    model_config_of(config);
    ADD_FAILURE();
  } catch (const formats::Error& error) {
    EXPECT_NE(error.full_text().find("phase_gain"), std::string::npos) << error.full_text();
  }
}

// ---- A job in this process, on a disk that fails -------------------------------------------------

void write_job(const fs::path& dir, const RunConfig& config) {
  fs::create_directories(dir);
  std::ofstream(dir / "config.json") << to_json(config);
}

std::vector<double> curve_of(const fs::path& dir) {
  std::vector<double> losses;
  for (const auto& point : read_metrics(dir / "metrics.jsonl")) losses.push_back(point.loss);
  return losses;
}

// A table of learned positions ends with the trained length: a validation that read the target of
// its last position would fall off it, and so would every resume.
TEST(Trainer, Risk1_ValidatesAndResumesALearnedTableAtItsEnd) {  // 17.A1
  TemporaryFolder folder;
  const fs::path dir = folder.path() / "j";
  const RunConfig config = small_run(folder.path(), 12, {{"key", "learned"}});
  ASSERT_EQ(config.eval.every, 10);
  write_job(dir, config);
  ASSERT_EQ(run_job(dir), 0);
  const auto points = read_metrics(dir / "metrics.jsonl");
  ASSERT_EQ(points.size(), 12u);
  EXPECT_TRUE(std::isfinite(points[9].validation_bits.value()));
  fs::remove_all(dir / "checkpoints/step-12");
  EXPECT_EQ(run_job(dir), 0);
  EXPECT_EQ(read_metrics(dir / "metrics.jsonl").size(), 12u);
}

// Texts that hold no window are left out, and counted; where none does nothing could be validated.
TEST(Trainer, ValidationTextsHoldAWindow) {  // 17.A6
  TemporaryFolder folder;
  RunConfig config = small_run(folder.path(), 12);
  const auto texts = folder.path() / "validation.jsonl";
  config.data.validation = texts.string();
  const auto write = [&](const std::vector<std::size_t>& sizes) {
    std::ofstream file(texts);
    for (const std::size_t size : sizes) {
      file << nlohmann::json{{"name", "text"}, {"text", std::string(size, 'x')}} << "\n";
    }
  };
  const auto length = static_cast<std::size_t>(config.model.context);
  write({3, length, length - 1, 2 * length});
  write_job(folder.path() / "some", config);
  ASSERT_EQ(run_job(folder.path() / "some"), 0);
  const auto points = read_metrics(folder.path() / "some" / "metrics.jsonl");
  EXPECT_TRUE(std::isfinite(points[9].validation_bits.value()));
  write({3, length - 1});
  write_job(folder.path() / "none", config);
  EXPECT_EQ(run_job(folder.path() / "none"), 2);
  config.eval.probe_every = 5, config.eval.every = 0;  // heads are measured on such a text too
  write_job(folder.path() / "probed", config);
  EXPECT_EQ(run_job(folder.path() / "probed"), 2);
  // Where nothing asks for one, training ends without.
  config.eval.probe_every = 0;
  write_job(folder.path() / "unasked", config);
  EXPECT_EQ(run_job(folder.path() / "unasked"), 0);
  const auto last = read_metrics(folder.path() / "unasked" / "metrics.jsonl").back();
  EXPECT_EQ(last.step, 12);
  EXPECT_FALSE(last.validation_bits);
}

// reliability.md, row 26: training goes on with a warning and the last checkpoint is whole.
TEST(Job, Row26GoesOnWhenASaveFails) {
  TemporaryFolder folder;
  const RunConfig config = small_run(folder.path(), 20);
  write_job(folder.path() / "whole", config);
  ASSERT_EQ(run_job(folder.path() / "whole"), 0);
  const auto wanted = curve_of(folder.path() / "whole");
  ASSERT_EQ(wanted.size(), 20u);
  for (const std::int64_t operation : {12, 30, 60, 70, 80}) {
    const fs::path dir = folder.path() / ("failing" + std::to_string(operation));
    write_job(dir, config);
    formats::FaultyFileSystem files(dir);
    files.fail_at(operation, ENOSPC);
    EXPECT_EQ(run_job(files, dir), 0) << operation;
    const auto newest = find_newest_checkpoint(files, dir / "checkpoints").newest;
    ASSERT_TRUE(newest) << operation;
    EXPECT_EQ(newest->step, 20) << operation;
    EXPECT_EQ(read_job(dir, CurveDetail::none).state, "done");
    EXPECT_EQ(curve_of(dir), wanted) << operation;
  }
}

// A disk with room for a status and for no checkpoint.
class TooSmallForACheckpoint final : public formats::FaultyFileSystem {
 public:
  using FaultyFileSystem::FaultyFileSystem;
  std::unique_ptr<formats::WritableFile> create(const fs::path& path) override {
    if (path.parent_path().filename().string().starts_with("step-")) {
      throw formats::FileError("nothing more fits", path, ENOSPC);
    }
    return FaultyFileSystem::create(path);
  }
};

TEST(Job, SaysAtItsEndWhyTheLastCheckpointIsNotThere) {
  TemporaryFolder folder;
  const fs::path dir = folder.path() / "j";
  write_job(dir, small_run(folder.path(), 4));
  TooSmallForACheckpoint files(dir);
  EXPECT_EQ(run_job(files, dir), 4);
  const std::string said = read_job(dir, CurveDetail::none).message;
  EXPECT_EQ(said.find("the last checkpoint could not be saved: the checkpoint of step 4 was not "
                      "saved: nothing more fits"),
            0u)
      << said;
}

TEST(Job, ADiskThatIsFullAtTheEndFailsAndTheJobCanBeResumed) {
  TemporaryFolder folder;
  const fs::path dir = folder.path() / "j";
  const RunConfig config = small_run(folder.path(), 20);
  write_job(dir, config);
  {
    formats::FaultyFileSystem files(dir);
    files.fail_from(90, ENOSPC);
    EXPECT_EQ(run_job(files, dir), 4);
  }
  EXPECT_EQ(run_job(dir), 0);
  EXPECT_EQ(curve_of(dir).size(), 20u);
}

// A metrics line that the disk refused is written with the next one, and what a resumed job could
// not drop is overruled: whichever operation fails, the curve is that of an unbroken run.
TEST(Job, AResumedJobKeepsItsMetricsOnADiskThatRefuses_Risk6) {  // 17.A6
  TemporaryFolder folder;
  const RunConfig config = small_run(folder.path(), 20);
  write_job(folder.path() / "whole", config);
  ASSERT_EQ(run_job(folder.path() / "whole"), 0);
  const auto wanted = curve_of(folder.path() / "whole");
  for (const std::int64_t operation : {1, 2, 3, 4, 5, 6, 8, 10, 14, 20}) {
    const fs::path dir = folder.path() / ("j" + std::to_string(operation));
    write_job(dir, config);
    formats::FaultyFileSystem files(dir);
    files.fail_from(70, ENOSPC);
    ASSERT_EQ(run_job(files, dir), 4);
    files.clear_faults();
    files.fail_at(operation, ENOSPC);
    EXPECT_EQ(run_job(files, dir), 0) << operation;
    EXPECT_EQ(curve_of(dir), wanted) << operation;
  }
}

TEST(Job, Row31AFolderInUseIsRefused) {
  TemporaryFolder folder;
  write_job(folder.path() / "j", small_run(folder.path(), 3));
  const auto lock = JobLock::try_take(folder.path() / "j");
  EXPECT_EQ(run_job(folder.path() / "j"), 2);
}

// Ctrl-C in a sweep reaches the job that it has just started, too.
TEST(Job, OneWhoseProcessIsYetToComeIsCancelledAllTheSame) {
  TemporaryFolder folder;
  setenv("XDG_DATA_HOME", (folder.path() / "data").c_str(), 1);
  const fs::path dir = folder.path() / "j";
  formats::FileSystem& files = formats::real_file_system();
  start_training(files, {.dir = dir,
                         .config = to_json(small_run(folder.path(), 5)),
                         .launched = true});  // its process is somebody else's to start
  EXPECT_EQ(control_job(files, dir, "cancel").state, "queued");
  EXPECT_EQ(run_job(dir), 130);
  const auto status = read_job(dir, CurveDetail::none);
  EXPECT_EQ(status.state, "cancelled");
  EXPECT_EQ(status.step, 0);
}

// A resume that takes a dying process for a live one would start nothing, without a word.
TEST(Job, OneThatWasJustKilledIsStartedAgain) {
  TemporaryFolder folder;
  setenv("XDG_DATA_HOME", (folder.path() / "data").c_str(), 1);
  const fs::path dir = folder.path() / "j";
  formats::FileSystem& files = formats::real_file_system();
  auto status = start_training(
      files, {.dir = dir, .config = to_json(small_run(folder.path(), 5)), .launched = true});
  status.state = "running";
  write_status(files, dir, status);
  auto lock = JobLock::try_take(dir);
  std::thread dying([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    lock.reset();
  });
  // What is not there cannot be started, which shows that something is.
  EXPECT_THROW(control_job(files, dir, "resume", folder.path() / "nothing"), formats::Error);
  dying.join();
}

// 3, as of every verb, which a cluster's queue can tell from a bad configuration.
TEST(Job, ADeviceThatIsNotThereHasAStatusOfItsOwn) {
  TemporaryFolder folder;
  RunConfig config = small_run(folder.path(), 3);
  config.train.device = "cuda:999";
  write_job(folder.path() / "j", config);
  EXPECT_EQ(run_job(folder.path() / "j"), 3);
}

TEST(Job, ABadConfigurationIsAStateAndAStatus) {
  TemporaryFolder folder;
  const fs::path dir = folder.path() / "j";
  fs::create_directories(dir);
  for (const auto& [text, told] : {std::pair{R"({"train": {"stepz": 3}})", "train.steps"},
                                   {"{\"train\": ", "not valid JSON"},
                                   {"[]", "config.json"}}) {
    std::ofstream(dir / "config.json", std::ios::trunc) << text;
    EXPECT_EQ(run_job(dir), 2) << text;
    const auto status = read_job(dir, CurveDetail::none);
    EXPECT_EQ(status.state, "failed") << text;
    EXPECT_NE(status.message.find(told), std::string::npos) << status.message;
  }
}

}  // namespace
}  // namespace phasescope::training
