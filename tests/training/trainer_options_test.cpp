// What a trainer has beside its steps: parts of a step, layers that run again, an average of the
// weights, an early end, jumps of the loss, other forms of the metrics.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "formats/error.h"
#include "model/checkpoints/open_model.h"
#include "tests/temporary_folder.h"
#include "tests/training/small_run.h"
#include "training/jobs/event_records.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"
#include "training/jobs/metrics_log.h"
#include "training/jobs/needs.h"
#include "training/loss_watch.h"
#include "training/trainer.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;

using protocol::JobStatus;
using Change = std::function<void(RunConfig&)>;

class Options : public testing::Test {
 protected:
  RunConfig run(std::int64_t steps, const Change& change) const {
    RunConfig config = small_run(folder_.path(), steps);
    config.train.dtype = "f32";
    change(config);
    return config;
  }
  Trainer trainer(const RunConfig& config) const {
    auto corpus = std::make_shared<const Corpus>(
        Corpus::open(config.data.corpus, config.data, config.model.context));
    return Trainer(config, corpus,
                   read_validation_texts(config.data.validation, config.model.context));
  }
  std::vector<double> losses(std::int64_t steps, const Change& change) const {
    Trainer one = trainer(run(steps, change));
    std::vector<double> list;
    while (!one.done()) list.push_back(one.step().loss);
    return list;
  }
  fs::path job(const char* name, const RunConfig& config) const {
    const fs::path dir = folder_.path() / name;
    fs::create_directories(dir);
    std::ofstream(dir / "config.json") << to_json(config);
    return dir;
  }

  TemporaryFolder folder_;
};

// The mean over all targets is the mean of the parts' by their share: the same up to the order of
// float32 sums.
TEST_F(Options, PartsOfAStepAreTheStep) {
  const auto whole = losses(6, [](RunConfig&) {});
  const auto parts = losses(6, [](RunConfig& c) { c.train.accumulate = 3; });
  ASSERT_EQ(parts.size(), 6u);
  for (std::size_t n = 0; n < 6; ++n) EXPECT_NEAR(parts[n], whole[n], 1e-3) << n;
  EXPECT_NEAR(parts[0], whole[0], 1e-5);
  EXPECT_NE(parts, whole);
}

// Samples of other lengths have other numbers of targets.
TEST_F(Options, PartsOfATasksStepGoByTheirTargets) {
  RunConfig config =
      run_config_from_file(fs::path(PHASESCOPE_SOURCE) / "sample_configs/desk/addition_rope.json");
  config.task.batch = 10, config.task.longest_at_first = 0, config.task.growth = 0;
  config.train.steps = 1;
  const auto first_loss = [&](std::int64_t parts) {
    config.train.accumulate = parts;
    Trainer one(config, std::make_shared<const TaskData>(config));
    return one.step().loss;
  };
  const double whole = first_loss(1);
  for (const std::int64_t parts : {2, 3, 7, 100}) {
    EXPECT_NEAR(first_loss(parts), whole, 1e-5) << parts;
  }
}

TEST_F(Options, LayersThatRunAgainGiveTheSameBits) {
  for (const char* dtype : {"f32", "bf16"}) {
    const auto kept = losses(6, [&](RunConfig& c) { c.train.dtype = dtype; });
    const auto again = losses(6, [&](RunConfig& c) {
      c.train.dtype = dtype;
      c.train.recompute = true;
    });
    EXPECT_EQ(again, kept) << dtype;
  }
}

// m <- a m + (1 - a) w, computed beside the trainer in float64.
TEST_F(Options, TheAverageIsThatOfTheWeights) {
  const RunConfig config = run(8, [](RunConfig& c) { c.train.average = 0.7; });
  Trainer one = trainer(config);
  const char* name = "model.layers.0.mlp.up_proj.weight";
  const auto now = [&] {
    model::Weights view = one.decoder().weights();
    return model::tensor_at(view, name).detach().to(at::kDouble);
  };
  at::Tensor mean = now();
  while (!one.done()) {
    one.step();
    mean = mean * 0.7 + now() * 0.3;
  }
  TemporaryFolder saved;
  one.write_files(formats::real_file_system(), saved.path());
  const auto average = model::open_model((saved.path() / "average.safetensors").string());
  model::Weights view = average->decoder.weights();
  // float32 roundings of 8 steps.
  EXPECT_LT((model::tensor_at(view, name).to(at::kDouble) - mean).abs().max().item<double>(), 1e-6);
  const auto last = model::open_model(saved.path().string());
  EXPECT_EQ(last->config().context, 32);
}

// Whatever is switched on, a run that went through a checkpoint makes the same losses.
TEST_F(Options, AllOfThemResumeBitForBit) {
  const RunConfig config = run(24, [](RunConfig& c) {
    c.train.average = 0.9, c.train.accumulate = 2, c.train.recompute = true;
    c.train.spike = "skip", c.train.spike_above = 1.0001;
    c.train.learning_rate = 1e-6;  // so that losses stay about their mean
  });
  Trainer unbroken = trainer(config);
  const auto to = [](Trainer& one, std::int64_t until) {
    std::vector<double> list;
    while (one.steps_done() < until) list.push_back(one.step().loss);
    return list;
  };
  to(unbroken, 12);
  const SaveOutcome saved = save_checkpoint(
      formats::real_file_system(), folder_.path(), 12,
      [&](formats::FileSystem& files, const fs::path& at) { unbroken.write_files(files, at); },
      {2, {}, unbroken.state()});
  ASSERT_EQ(saved.message, "");
  const auto wanted = to(unbroken, 24);
  EXPECT_GT(unbroken.skipped(), 0);
  protocol::NoProgress progress;
  Trainer resumed = trainer(config);
  resumed.load(*find_newest_checkpoint(formats::real_file_system(), folder_.path()).newest);
  EXPECT_EQ(to(resumed, 24), wanted);
  EXPECT_EQ(resumed.skipped(), unbroken.skipped());
  EXPECT_EQ(resumed.validation(progress).bits, unbroken.validation(progress).bits);
}

// ---- Jumps and an early end ----------------------------------------------------------------------

TrainSection watching(const std::string& spike, std::int64_t patience) {
  TrainSection train;
  train.spike = spike, train.patience = patience;
  return train;
}

TEST(LossWatch, JumpsAreMeasuredByTheLossesBefore) {
  LossWatch watch(watching("skip", 0));
  EXPECT_FALSE(watch.jumps(1e9));  // nothing to measure by
  EXPECT_TRUE(watch.jumps(std::nan("")));
  for (int n = 0; n < 10; ++n) watch.add(2);
  EXPECT_FALSE(watch.jumps(4));
  EXPECT_TRUE(watch.jumps(4.001));
  for (int n = 0; n < 50; ++n) watch.add(1);  // the twos are forgotten
  EXPECT_TRUE(watch.jumps(2.001));
  LossWatch again(watching("skip", 0));
  again.load(nlohmann::json::parse(watch.state().dump()));
  EXPECT_TRUE(again.jumps(2.001));
  EXPECT_FALSE(again.jumps(2));
  EXPECT_FALSE(LossWatch(watching("off", 0)).jumps(std::nan("")));
}

// A gradient may overflow where the loss before it does not: the loss is not said to have jumped.
TEST(LossWatch, AJumpIsToldByWhatIsWrong) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(words_of_jump(5.5, infinite), "the norm of its gradient is no finite number");
  EXPECT_EQ(words_of_jump(9.25, 3), "its loss of 9.250000 jumps");
  EXPECT_TRUE(words_of_jump(infinite, infinite).starts_with("its loss of inf"));
}

// A state with a loss that is no number would be null in a checkpoint, which nothing could resume.
TEST(LossWatch, AValidationThatIsNoNumberIsNotTheBest) {
  LossWatch watch(watching("off", 2));
  watch.add_validation(1, std::nan(""));
  watch.add_validation(2, 3.0);
  watch.add_validation(3, std::nan(""));
  EXPECT_FALSE(watch.gave_up());
  LossWatch again(watching("off", 2));
  again.load(nlohmann::json::parse(watch.state().dump()));
  again.add_validation(4, 2.5);  // better than 3
  again.add_validation(5, 4.0);
  EXPECT_FALSE(again.gave_up());
  again.add_validation(6, 4.0);
  EXPECT_TRUE(again.gave_up());
}

TEST(LossWatch, GivesUpAfterSoManyValidationsWithoutABetterOne) {
  LossWatch watch(watching("off", 2));
  std::int64_t step = 0;
  for (const double bits : {3.0, 2.0, 2.5}) watch.add_validation(++step, bits);
  EXPECT_FALSE(watch.gave_up());
  LossWatch again(watching("off", 2));
  again.load(nlohmann::json::parse(watch.state().dump()));
  again.add_validation(4, 2.0);  // no better
  EXPECT_TRUE(again.gave_up());
  watch.add_validation(4, 1.9);
  EXPECT_FALSE(watch.gave_up());
}

TEST(LossWatch, RemembersTheFirstOfTheBestValidations) {
  TrainSection train;
  train.keep_best = "bits";
  LossWatch bits(train);
  bits.add_validation(1, std::nan(""));  // no best one
  EXPECT_EQ(bits.best_step(), 0);
  std::int64_t step = 0;
  for (const double value : {3.0, 2.0, 2.0, 2.5}) bits.add_validation(step += 10, value, 0.1);
  EXPECT_EQ(bits.best_step(), 20);
  LossWatch again(train);
  again.load(nlohmann::json::parse(bits.state().dump()));
  EXPECT_EQ(again.best_step(), 20);
  again.add_validation(50, 2.0);
  EXPECT_EQ(again.best_step(), 20);
  again.add_validation(60, 1.9);
  EXPECT_EQ(again.best_step(), 60);
  train.keep_best = "right";  // the most, whatever the loss
  LossWatch right(train);
  right.add_validation(1, 2, 0.5), right.add_validation(2, 1, 0.4), right.add_validation(3, 9, 0.6);
  EXPECT_EQ(right.best_step(), 3);
  again.load(nlohmann::json::parse(right.state().dump()));  // a resume with another measure
  EXPECT_EQ(again.best_step(), 0);
  LossWatch nobody{TrainSection()};
  nobody.add_validation(1, 2);
  EXPECT_EQ(nobody.best_step(), 0);
  EXPECT_FALSE(nobody.state().contains("kept"));
}

// A step that is left out changes no weight, is counted, and the next one reads other data.
TEST_F(Options, AJumpIsLeftOut) {
  const RunConfig config = run(30, [](RunConfig& c) {
    c.train.spike = "skip", c.train.spike_above = 1.0001, c.train.learning_rate = 1e-6;
  });
  Trainer one = trainer(config);
  bool seen = false;
  while (!one.done()) {
    const at::Tensor before = one.decoder().weights().embedding.detach().clone();
    const std::int64_t skipped = one.skipped();
    one.step();
    const bool same = before.equal(one.decoder().weights().embedding);
    EXPECT_EQ(same, one.skipped() > skipped);
    seen = seen || same;
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(one.steps_done(), 30);
}

// Back to the checkpoint and on with other data; the job says so and comes to its end, and one that
// was killed on the way makes the same losses.
TEST_F(Options, AJobGoesBackWhenItsLossJumps) {
  const auto still = [](RunConfig& c) {
    c.train.learning_rate = 1e-6;  // losses stay about their mean
    c.train.checkpoint_every = 4, c.eval.every = 0;
  };
  // The highest of the losses, measured by those before it, is what jumps.
  const auto plain = losses(60, still);
  double highest = 0;
  for (std::size_t n = 10; n < plain.size(); ++n) {
    const std::size_t begin = n < 50 ? 0 : n - 50;
    double sum = 0;
    for (std::size_t at = begin; at < n; ++at) sum += plain[at];
    highest = std::max(highest, plain[n] * static_cast<double>(n - begin) / sum);
  }
  ASSERT_GT(highest, 1.0001);
  const RunConfig config = run(60, [&](RunConfig& c) {
    still(c);
    c.train.spike = "rewind", c.train.spike_above = 1 + 0.999 * (highest - 1);
  });
  const fs::path dir = job("rewind", config);
  ASSERT_EQ(run_job(dir), 0) << read_job(dir, CurveDetail::none).message;
  const auto points = read_metrics(dir / "metrics.jsonl");
  ASSERT_EQ(points.size(), 60u);
  const JobStatus status = read_job(dir, CurveDetail::none);
  EXPECT_NE(status.message.find("goes on from step"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("in order"), std::string::npos) << status.message;
  fs::remove_all(dir / "checkpoints/step-60");
  ASSERT_EQ(run_job(dir), 0);
  const auto again = read_metrics(dir / "metrics.jsonl");
  ASSERT_EQ(again.size(), 60u);
  for (std::size_t n = 0; n < 60; ++n) EXPECT_EQ(again[n].loss, points[n].loss) << n;
}

// Where all scores are 0 a query at place q gives each of q + 1 keys the same weight: entropy ln(q
// + 1), 1 / (q + 1) on the first key and on the one before. Weights so small that the norms' eps
// hides them make scores far below what float32 tells from 0.
TEST_F(Options, MetricsOfHeadsAreThoseOfTheProbeText) {
  const RunConfig config = run(12, [](RunConfig& c) {
    c.encoding = {{"key", "none"}};
    c.model.init_std = 1e-12;
    c.eval.probe_every = 5, c.eval.probe_text = "abcdefg";
    c.eval.probe_metrics = {"entropy", "sink", "previous_token"};
  });
  const HeadValues values = trainer(config).head_values();
  double entropy = 0, sink = 1, previous = 0;  // [BOS] and seven bytes
  for (int q = 1; q < 8; ++q) {
    entropy += std::log(q + 1.0) / 7, sink += 1.0 / (q + 1), previous += 1.0 / (q + 1) / 7;
  }
  ASSERT_EQ(values.size(), 3u);
  for (const auto& [metric, expected] : std::map<std::string, double>{
           {"entropy", entropy}, {"sink", sink / 8}, {"previous_token", previous}}) {
    ASSERT_EQ(values.at(metric).size(), 2u);
    for (const auto& layer : values.at(metric)) {
      ASSERT_EQ(layer.size(), 2u);
      // Sums of eight float32 weights.
      for (const double value : layer) EXPECT_NEAR(value, expected, 8 * std::ldexp(1.0, -23));
    }
  }
}

// A look at the heads changes no step, and stands in metrics.jsonl where it was asked for.
TEST_F(Options, AProbeDisturbsNothing) {
  const auto probed = [](RunConfig& c) { c.eval.probe_every = 5; };
  const fs::path plain = job("plain", run(12, [](RunConfig&) {})),
                 dir = job("probed", run(12, probed));
  ASSERT_EQ(run_job(plain), 0);
  ASSERT_EQ(run_job(dir), 0) << read_job(dir, CurveDetail::none).message;
  const auto points = read_metrics(dir / "metrics.jsonl"),
             other = read_metrics(plain / "metrics.jsonl");
  ASSERT_EQ(points.size(), 12u);
  for (std::size_t n = 0; n < 12; ++n) {
    EXPECT_EQ(points[n].loss, other[n].loss) << n;
    EXPECT_EQ(points[n].heads.has_value(), points[n].step % 5 == 0) << n;
  }
  EXPECT_EQ(points[4].heads->size(), 4u);
  EXPECT_FALSE(other[4].heads);
  EXPECT_THROW(check_probe(EvalSection{.probe_metrics = {"entropie"}}), formats::Error);
}

// At a rate that is far too large validation gets worse from the first step on.
TEST_F(Options, AJobEndsEarlyAndSaysIt) {
  const RunConfig config = run(60, [](RunConfig& c) {
    c.train.patience = 2, c.eval.every = 2, c.eval.windows = 1;
    c.train.learning_rate = 3, c.train.warmup_steps = 0;
  });
  const fs::path dir = job("early", config);
  ASSERT_EQ(run_job(dir), 0);
  const JobStatus status = read_job(dir, CurveDetail::none);
  EXPECT_EQ(status.state, "done");
  EXPECT_LT(status.step, 60);
  EXPECT_NE(status.message.find("no better"), std::string::npos) << status.message;
  EXPECT_TRUE(fs::exists(dir / ("checkpoints/step-" + std::to_string(status.step))));
  EXPECT_EQ(run_job(dir), 0);  // and is done
  EXPECT_EQ(read_metrics(dir / "metrics.jsonl").size(), static_cast<std::size_t>(status.step));
}

// ---- Other forms of the metrics ------------------------------------------------------------------

// Bit by bit, so that what reads the file shares nothing with what wrote it.
std::uint32_t sum_of(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

// RFC 3720, B.4: 32 bytes of 0, of 0xff, 0 to 31 and back; and the check value of catalogues.
TEST(EventRecords, TheSumIsCastagnolis) {
  std::string up, down;
  for (int n = 0; n < 32; ++n) up += static_cast<char>(n), down += static_cast<char>(31 - n);
  EXPECT_EQ(sum_of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(sum_of(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(sum_of(up), 0x46dd794eu);
  EXPECT_EQ(sum_of(down), 0x113fdb5cu);
  EXPECT_EQ(sum_of("123456789"), 0xe3069283u);
}

struct ReadEvent {
  double wall = 0;
  std::int64_t step = 0;
  std::string version;
  bool restart = false;
  std::map<std::string, float> scalars;
};

// A reader of the wire form of its own, by the .proto files.
class WireReader {
 public:
  explicit WireReader(std::string_view text) : text_(text) {}
  bool done() const { return at_ >= text_.size(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(text_.at(at_++));
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view take(std::size_t bytes) {
    const std::string_view part = text_.substr(at_, bytes);
    EXPECT_EQ(part.size(), bytes);
    at_ += bytes;
    return part;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

void read_summary(std::string_view summary, ReadEvent& event) {
  WireReader values(summary);
  while (!values.done()) {
    EXPECT_EQ(values.varint(), 1u << 3 | 2);
    WireReader value(values.take(values.varint()));
    EXPECT_EQ(value.varint(), 1u << 3 | 2);
    const std::string tag(value.take(value.varint()));
    EXPECT_EQ(value.varint(), 2u << 3 | 5);
    event.scalars[tag] = value.fixed<float>();
    EXPECT_TRUE(value.done());
  }
}

std::vector<ReadEvent> events_of(const std::string& file) {
  std::vector<ReadEvent> events;
  const auto masked = [](std::string_view part) {
    const std::uint32_t crc = sum_of(part);
    return static_cast<std::uint32_t>((crc >> 15 | crc << 17) + 0xa282ead8u);
  };
  WireReader records(file);
  while (!records.done()) {
    const std::string_view length = records.take(8);
    EXPECT_EQ(records.fixed<std::uint32_t>(), masked(length));
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, length.data(), 8);
    const std::string_view data = records.take(bytes);
    EXPECT_EQ(records.fixed<std::uint32_t>(), masked(data));
    ReadEvent& event = events.emplace_back();
    WireReader fields(data);
    while (!fields.done()) {
      switch (fields.varint()) {
        case 1 << 3 | 1:
          event.wall = fields.fixed<double>();
          break;
        case 2 << 3 | 0:
          event.step = static_cast<std::int64_t>(fields.varint());
          break;
        case 3 << 3 | 2:
          event.version = fields.take(fields.varint());
          break;
        case 5 << 3 | 2:
          read_summary(fields.take(fields.varint()), event);
          break;
        case 7 << 3 | 2:
          event.restart = fields.take(fields.varint()) == "\x08\x01";
          break;
        default:
          ADD_FAILURE() << "an unknown field";
          return events;
      }
    }
  }
  return events;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Options, MetricsAreWrittenInOtherFormsToo) {
  const RunConfig config = run(20, [](RunConfig& c) { c.train.csv = c.train.tensorboard = true; });
  const fs::path dir = job("forms", config);
  ASSERT_EQ(run_job(dir), 0);
  fs::remove_all(dir / "checkpoints/step-20");  // goes on from step 14
  ASSERT_EQ(run_job(dir), 0);
  const auto points = read_metrics(dir / "metrics.jsonl");
  ASSERT_EQ(points.size(), 20u);
  // A header, and a line a point, the steps that were made again once.
  std::istringstream csv(content_of(dir / "metrics.csv"));
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line, "step,tokens,loss,lr,time,validation_bits,validation_right,gradient_norm,length");
  for (const auto& point : points) {
    ASSERT_TRUE(std::getline(csv, line));
    EXPECT_TRUE(line.starts_with(std::to_string(point.step) + "," + std::to_string(point.tokens) +
                                 "," + nlohmann::json(point.loss).dump() + ","))
        << line;
  }
  EXPECT_FALSE(std::getline(csv, line));
  // Two files: the first with all steps, the second from the checkpoint's on, and it says so.
  std::vector<std::vector<ReadEvent>> files;
  std::vector<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      names.push_back(entry.path());
    }
  }
  std::ranges::sort(names);
  for (const fs::path& name : names) files.push_back(events_of(content_of(name)));
  ASSERT_EQ(files.size(), 2u);
  ASSERT_EQ(files[0].size(), 21u);
  ASSERT_EQ(files[1].size(), 8u);
  for (const auto& events : files) EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(files[1][1].restart);
  EXPECT_EQ(files[1][1].step, 15);
  for (std::size_t n = 0; n < 20; ++n) {
    const ReadEvent& event = files[0][n + 1];
    EXPECT_EQ(event.step, points[n].step);
    EXPECT_EQ(event.scalars.at("train/loss"), static_cast<float>(points[n].loss));
    EXPECT_EQ(event.scalars.contains("train/validation_bits"),
              points[n].validation_bits.has_value());
    EXPECT_GT(event.wall, 1.6e9);
  }
  EXPECT_EQ(files[1][2].step, 15);
  // Removed with the job.
  remove_job(formats::real_file_system(), dir);
  EXPECT_FALSE(fs::exists(dir));
}

// ---- What a training takes -----------------------------------------------------------------------

TEST_F(Options, AMeasuredStepChangesNothing) {
  const auto wanted = losses(5, [](RunConfig&) {});
  Trainer one = trainer(run(5, [](RunConfig&) {}));
  const StepCost cost = one.measured_step();
  EXPECT_GT(cost.seconds, 0);
  std::vector<double> list;
  while (!one.done()) list.push_back(one.step().loss);
  EXPECT_EQ(list, wanted);
  // A checkpoint's files are those bytes, and headers.
  TemporaryFolder saved;
  one.write_files(formats::real_file_system(), saved.path());
  std::int64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(saved.path())) {
    bytes += static_cast<std::int64_t>(entry.file_size());
  }
  EXPECT_GT(bytes, cost.checkpoint_bytes);
  EXPECT_LT(bytes, cost.checkpoint_bytes + 32768);
}

TEST(Needs, AreReckonedFromAStep) {
  RunConfig config;
  config.train.steps = 6000, config.train.keep_checkpoints = 3, config.train.keep_steps = {10, 20};
  const Needs needs = needs_of(config, {.seconds = 0.08, .checkpoint_bytes = 7'200'000});
  EXPECT_DOUBLE_EQ(needs.seconds, 480);
  EXPECT_EQ(needs.disk_bytes(), 6 * 7'200'000);
  EXPECT_GT(needs.memory_bytes, 1 << 20);
  const std::string words = words_of(needs);
  EXPECT_TRUE(words.starts_with("a step takes 0.08 s, 6000 steps 8 min without validations; "))
      << words;
  EXPECT_TRUE(words.ends_with("checkpoints of 7.2 MB, 6 at once at most, 43.2 MB")) << words;
  EXPECT_EQ(lacking_room(needs, "/"), "");
  Needs large = needs;
  large.checkpoint_bytes = std::int64_t{1} << 58;
  EXPECT_NE(lacking_room(large, "/").find("the checkpoints take"), std::string::npos);
}

}  // namespace
}  // namespace phasescope::training
