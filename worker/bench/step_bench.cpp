#include "worker/bench/step_bench.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "formats/counter_random.h"
#include "formats/error.h"
#include "model/attention/attention.h"
#include "model/checkpoints/open_model.h"
#include "model/devices.h"
#include "model/transfers.h"
#include "training/corpus.h"
#include "training/schedule.h"
#include "training/task_data.h"
#include "training/trainer.h"
#include "worker/bench/bench_timing.h"
#include "worker/bench/kernel_rivals.h"
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

// A training's model by itself, with random weights.
std::shared_ptr<const model::Model> bare_model(const RunConfig& config, const at::Device& device) {
  return model::on_device(model::random_model(training::model_config_of(config),
                                              static_cast<std::uint64_t>(config.train.seed)),
                          device);
}

// One training at one length, and where there is one its rival, which makes the same steps; or its
// forward passes alone.
class StepCase {
 public:
  StepCase(std::string name, RunConfig config, bool forward_only)
      : config_(std::move(config)), device_(model::device_named(config_.train.device)) {
    row_.name = std::move(name), row_.device = device_.str();
    row_.dtype = config_.train.dtype;
    if (forward_only) {
      begin_passes();
    } else {
      begin_steps();
    }
    row_.encoding = decoder().config().encoding.key;
    row_.parameters = parameter_count_of(decoder());
    const auto whole = [this] { trainer_ ? one_step() : one_pass(); };
    row_.peak_mb =
        device_.is_cuda() ? gpu_peak_mb_of(whole, device_.index()) : peak_mb_of(timed_whole(whole));
    count_transfers(whole);
    row_.kernel = trainer_ ? trainer_->kernel() : protocol::words_of(protocol::listed(kernels_));
  }

  void run() {
    if (trainer_) step_.push_back(time_of([this] { one_step(); }));
    if (!trainer_ || corpus_) forward_.push_back(time_of([this] { one_pass(); }));
    if (rival_) rival_times_.push_back(time_of([this] { rival_step(); }));
  }

  // Without over_first, which is known when all are.
  StepBenchRow row() const {
    StepBenchRow row = row_;
    const Spread step = spread_of(step_);
    row.step_ms = step.median, row.step_ms_min = step.least, row.step_ms_max = step.largest;
    row.forward_ms = spread_of(forward_).median;
    row.tokens_per_second = 1e3 * static_cast<double>(tokens_) / whole_ms(row);
    row.rival_ms = spread_of(rival_times_).median;
    row.speedup_over_rival = row.rival_ms / row.step_ms;
    return row;
  }

  // Of a step, or where there are none of a forward pass.
  static double whole_ms(const StepBenchRow& row) {
    return std::isnan(row.step_ms) ? row.forward_ms : row.step_ms;
  }

 private:
  void begin_passes() {
    if (!config_.of_text()) {
      throw formats::bad_usage("a task's samples are steps", "forward_only",
                               "give configurations that read text");
    }
    at::set_num_threads(static_cast<int>(config_.train.threads));
    model_ = bare_model(config_, device_);
    row_.length = config_.model.context;
    row_.windows = std::max<std::int64_t>(config_.train.batch_tokens / row_.length, 1);
    tokens_ = row_.windows * row_.length;
  }

  void begin_steps() {
    if (config_.of_text()) {
      const auto bytes = static_cast<std::size_t>(config_.model.context) * kWindowsOfText;
      corpus_ = std::make_shared<const training::Corpus>(random_text(bytes), config_.data,
                                                         config_.model.context);
      trainer_.emplace(config_, corpus_, std::vector<formats::NamedText>());
    } else {
      trainer_.emplace(config_, std::make_shared<const training::TaskData>(config_));
    }
    add_rival();
  }

  const model::Decoder& decoder() const { return trainer_ ? trainer_->decoder() : model_->decoder; }

  // Milliseconds until the device has done it.
  double time_of(const std::function<void()>& call) const {
    return worker::time_of(timed_whole([&] {
             call();
             wait();
           }))
        .wall;
  }
  void wait() const {
    if (device_.is_cuda()) wait_for_gpu(device_.index());
  }

  void count_transfers(const std::function<void()>& whole) {
    const model::Transfers transfers;
    whole();
    wait();
    row_.to_device = transfers.to_device(), row_.to_host = transfers.to_host();
  }

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

  void one_pass() {
    const at::NoGradGuard no_gradients;
    const at::Tensor ids = at::randint(0, std::min<std::int64_t>(256, config_.model.vocab_size),
                                       {row_.windows, row_.length}, at::kLong);
    decoder().forward(ids, trainer_ ? trainer_->forward_options(0) : options_of_passes());
  }
  model::ForwardOptions options_of_passes() {
    model::ForwardOptions options;
    options.backend = model::backend_named(config_.train.backend);
    options.kernels = &kernels_;
    if (config_.train.dtype == "bf16") options.product_dtype = at::kBFloat16;
    return options;
  }

  void rival_step() {
    rival_->step(corpus_->batch(config_.train, config_.model.context, rival_steps_),
                 training::learning_rate_at(config_.train, rival_steps_));
    ++rival_steps_;
  }

  RunConfig config_;
  at::Device device_;
  std::shared_ptr<const training::Corpus> corpus_;
  std::optional<training::Trainer> trainer_;
  std::shared_ptr<const model::Model> model_;  // where there is no trainer
  model::AllRan kernels_;                      // likewise
  std::optional<PlainLoop> rival_;
  StepBenchRow row_;
  std::int64_t tokens_ = 0, tokens_done_ = 0, rival_steps_ = 0;
  std::vector<double> step_, forward_, rival_times_;
};

RunConfig as_asked(RunConfig config, std::int64_t length, std::int64_t threads,
                   const protocol::StepBenchRequest& request) {
  config.train.threads = threads;
  if (!request.device.empty()) config.train.device = request.device;
  if (!request.backend.empty()) config.train.backend = request.backend;
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

// The time over that of the first configuration at the same place in the list of lengths.
void add_ratios(std::vector<StepBenchRow>& rows, std::size_t lengths) {
  for (std::size_t n = 0; n < rows.size(); ++n) {
    rows[n].over_first = StepCase::whole_ms(rows[n]) / StepCase::whole_ms(rows[n % lengths]);
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
      cases.push_back(std::make_unique<StepCase>(
          one.name, as_asked(one.config, length, threads, request), request.forward_only));
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
