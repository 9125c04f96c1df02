#include "worker/bench/step_bench.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "formats/counter_random.h"
#include "formats/error.h"
#include "training/corpus.h"
#include "training/schedule.h"
#include "training/task_data.h"
#include "training/trainer.h"
#include "worker/bench/bench_timing.h"
#include "worker/bench/step_rival.h"

namespace phasescope::worker {
namespace {

using nlohmann::json;
using protocol::StepBenchRow;
using training::RunConfig;

constexpr std::size_t kWindowsOfText = 64;  // the time of a step does not depend on the text
constexpr std::uint64_t kTextStream = 1;

std::string random_text(std::size_t bytes) {
  const formats::CounterRandom random(0, kTextStream);
  std::string text(bytes, ' ');
  for (std::size_t n = 0; n < bytes; ++n) text[n] = static_cast<char>(random.below(256, n));
  return text;
}

std::int64_t parameter_count_of(const model::Decoder& decoder) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] :
       model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights())) {
    count += tensor.numel();
  }
  return count;
}

// One training at one length, and where there is one its rival, which makes the same steps.
class StepCase {
 public:
  StepCase(std::string name, RunConfig config) : config_(std::move(config)) {
    if (config_.of_text()) {
      const auto bytes = static_cast<std::size_t>(config_.model.context) * kWindowsOfText;
      corpus_ = std::make_shared<const training::Corpus>(random_text(bytes), config_.data,
                                                         config_.model.context);
      trainer_.emplace(config_, corpus_, std::vector<formats::NamedText>());
    } else {
      trainer_.emplace(config_, std::make_shared<const training::TaskData>(config_));
    }
    row_.name = std::move(name), row_.encoding = trainer_->decoder().config().encoding.key;
    row_.dtype = config_.train.dtype;
    row_.parameters = parameter_count_of(trainer_->decoder());
    add_rival();
    row_.peak_mb = peak_mb_of(timed_whole([this] { one_step(); }));
    row_.kernel = trainer_->kernel();
  }

  void run() {
    step_.push_back(time_of(timed_whole([this] { one_step(); })).wall);
    if (corpus_) forward_.push_back(time_of(timed_whole([this] { one_pass(); })).wall);
    if (rival_) rival_times_.push_back(time_of(timed_whole([this] { rival_step(); })).wall);
  }

  // Without over_first, which is known when all are.
  StepBenchRow row() const {
    StepBenchRow row = row_;
    const Spread step = spread_of(step_);
    row.step_ms = step.median, row.step_ms_min = step.least, row.step_ms_max = step.largest;
    row.forward_ms = spread_of(forward_).median;
    row.tokens_per_second = 1e3 * static_cast<double>(tokens_) / row.step_ms;
    row.rival_ms = spread_of(rival_times_).median;
    row.speedup_over_rival = row.rival_ms / row.step_ms;
    return row;
  }

 private:
  void add_rival() {
    const bool alike = corpus_ && config_.train.accumulate == 1;
    if (!alike || !PlainLoop::obstacle(trainer_->decoder().config()).empty()) return;
    rival_.emplace(trainer_->decoder(), config_.train);
    row_.rival = kPlainLoop;
    rival_step();
    rival_steps_ = 0;
  }

  void one_step() {
    const std::int64_t before = tokens_done_;
    const protocol::MetricPoint point = trainer_->step();
    tokens_done_ = point.tokens, tokens_ = point.tokens - before;
    row_.length = static_cast<std::int64_t>(point.length.value_or(0));
    row_.windows = row_.length > 0 ? tokens_ / row_.length : 0;
  }

  void one_pass() const {
    const at::NoGradGuard no_gradients;
    const at::Tensor ids = at::randint(0, std::min<std::int64_t>(256, config_.model.vocab_size),
                                       {row_.windows, row_.length}, at::kLong);
    trainer_->decoder().forward(ids, trainer_->forward_options(0));
  }

  void rival_step() {
    rival_->step(corpus_->batch(config_.train, config_.model.context, rival_steps_),
                 training::learning_rate_at(config_.train, rival_steps_));
    ++rival_steps_;
  }

  RunConfig config_;
  std::shared_ptr<const training::Corpus> corpus_;
  std::optional<training::Trainer> trainer_;
  std::optional<PlainLoop> rival_;
  StepBenchRow row_;
  std::int64_t tokens_ = 0, tokens_done_ = 0, rival_steps_ = 0;
  std::vector<double> step_, forward_, rival_times_;
};

RunConfig at_length(RunConfig config, std::int64_t length, std::int64_t threads) {
  config.train.threads = threads;
  config.train.curriculum.clear();
  if (length == 0) return config;
  if (!config.of_text()) {
    throw formats::bad_usage("a task's samples have their own lengths", "lengths",
                             "leave them out, or give configurations that read text");
  }
  config.model.context = length;
  config.train.batch_tokens = std::max(config.train.batch_tokens, length);
  return config;
}

struct Named {
  std::string name;
  RunConfig config;
};

std::vector<Named> named_configs(const json& list) {
  std::vector<Named> configs;
  for (const json& one : list.is_array() ? list : json::array()) {
    const std::string name = one.is_object() ? one.value("name", "") : "";
    if (name.empty() || !one.contains("config")) {
      throw formats::bad_usage("each has a \"name\" and a \"config\"", "configs");
    }
    configs.push_back({name, training::run_config_from_json(
                                 training::filled_in_from_model(one.at("config")), name)});
  }
  if (configs.empty()) {
    throw formats::bad_usage("there is no run configuration", "configs",
                             "bench step sample_configs/desk/rope.json");
  }
  return configs;
}

// Trainers set how many threads LibTorch has; those after are to have as many as before.
class ThreadsAsBefore {
 public:
  ~ThreadsAsBefore() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

// The step's time over that of the first configuration at the same place in the list of lengths.
void add_ratios(std::vector<StepBenchRow>& rows, std::size_t lengths) {
  for (std::size_t n = 0; n < rows.size(); ++n) {
    rows[n].over_first = rows[n].step_ms / rows[n % lengths].step_ms;
  }
}

}  // namespace

protocol::Reply bench_step(const protocol::StepBenchRequest& request, RequestContext& context) {
  const ThreadsAsBefore restored;
  const std::int64_t threads = request.threads > 0 ? request.threads : at::get_num_threads();
  std::vector<std::int64_t> lengths = request.lengths;
  if (lengths.empty()) lengths.push_back(0);
  std::vector<std::unique_ptr<StepCase>> cases;
  for (const Named& one : named_configs(request.configs)) {
    for (const std::int64_t length : lengths) {
      context.progress(0, one.name);
      context.throw_if_cancelled();
      cases.push_back(std::make_unique<StepCase>(one.name, at_length(one.config, length, threads)));
    }
  }
  for (std::int64_t run = 0; run < request.runs; ++run) {
    for (const auto& one : cases) {
      context.progress(static_cast<double>(run) / static_cast<double>(request.runs), "steps");
      context.throw_if_cancelled();
      one->run();
    }
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  protocol::StepBench bench{.processor = processor_name(cpuinfo), .threads = threads};
  bench.runs = request.runs;
  for (const auto& one : cases) bench.rows.push_back(one->row());
  add_ratios(bench.rows, lengths.size());
  return reply_of(bench);
}

}  // namespace phasescope::worker
