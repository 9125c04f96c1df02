#include "training/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <thread>

#include "formats/counter_random.h"
#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "formats/tokenizer_files.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "model/devices.h"
#include "model/loss.h"
#include "training/evals/task_answers.h"
#include "training/schedule.h"

namespace phasescope::training {
namespace {

constexpr std::uint64_t kShiftStream = 2;
constexpr std::uint64_t kTorchStream = 3;
constexpr std::uint64_t kPositionStream = 4;
constexpr std::uint64_t kOrderOfTextStream = 10;  // 5 to 9: of tasks and start/
constexpr std::uint64_t kDropStream = 12;         // 11: of images
constexpr const char* kOptimiserFile = "optimiser.safetensors";
constexpr const char* kAverageFile = "average.safetensors";

// Those named `trained`, with the matrices beside them.
std::vector<AdamW::Parameter> trained_parameters(const model::Decoder& decoder, const Lora& lora,
                                                 const std::vector<std::string>& trained) {
  std::map<std::string, at::Tensor> there;
  for (const auto& [name, tensor] :
       model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights())) {
    there.emplace(name, tensor);
  }
  const std::set<std::string> names(trained.begin(), trained.end());
  std::vector<AdamW::Parameter> parameters;
  for (const model::TensorSpec& spec : model::tensor_specs(decoder.config(), decoder.encoding())) {
    if (!names.contains(spec.name) || lora.changes(spec.name)) continue;
    at::Tensor& tensor = there.at(spec.name);
    tensor.set_requires_grad(true);
    parameters.push_back({spec.name, tensor, spec.decays});
  }
  for (AdamW::Parameter& one : lora.parameters()) parameters.push_back(std::move(one));
  if (!parameters.empty()) return parameters;
  throw formats::bad_input("no tensor is left to train", "start.train",
                           "name some, or fewer in start.freeze");
}

// Drawn or opened on the host, so that it starts alike wherever it trains.
model::Decoder on_its_device(model::Decoder decoder, const RunConfig& config) {
  const at::Device device = model::device_named(config.train.device);
  if (device.is_cpu()) return decoder;
  const at::NoGradGuard no_gradients;
  model::Weights weights =
      model::on_device(decoder.config(), decoder.encoding(), decoder.weights(), device);
  return model::Decoder(decoder.config(), decoder.shared_encoding(), std::move(weights));
}

// The same model around copies of the tensors that are trained.
model::Decoder with_own_tensors(const model::Decoder& decoder,
                                const std::vector<std::string>& trained) {
  const at::NoGradGuard no_gradients;
  model::Weights weights = decoder.weights();
  for (const std::string& name : trained) {
    at::Tensor& tensor = model::tensor_at(weights, name);
    tensor = tensor.detach().clone();
  }
  return model::Decoder(decoder.config(), decoder.shared_encoding(), std::move(weights));
}

AdamWSettings optimiser_settings(const TrainSection& train) {
  return {train.beta1, train.beta2, train.epsilon, train.weight_decay};
}

at::Tensor ids_of(std::vector<std::int64_t>& values, std::int64_t rows, std::int64_t columns) {
  return at::from_blob(values.data(), {rows, columns}, at::kLong);
}

// Window w of the validation: texts in turn, and of each text its successive windows.
std::vector<std::int64_t> validation_window(const std::vector<std::vector<std::int64_t>>& texts,
                                            std::int64_t w, std::int64_t length, std::int64_t bos) {
  const auto count = static_cast<std::int64_t>(texts.size());
  const std::vector<std::int64_t>& text = texts[static_cast<std::size_t>(w % count)];
  const std::int64_t windows = static_cast<std::int64_t>(text.size()) / length;
  std::vector<std::int64_t> ids{bos};
  const auto start = text.begin() + (w / count) % windows * length;
  ids.insert(ids.end(), start, start + length);
  return ids;
}

// What a tokenizer beside a model, or by itself, says, in files that a checkpoint carries along.
void copy_tokenizer(formats::FileSystem& fs, const std::filesystem::path& from,
                    const std::filesystem::path& to) {
  const auto file = formats::find_tokenizer_file(from);
  if (!file) return;
  for (const std::string& name : {file->filename().string(), std::string("tokenizer_config.json"),
                                  std::string("special_tokens_map.json")}) {
    const std::filesystem::path source = file->parent_path() / name;
    if (!fs.exists(source)) continue;
    formats::write_file_atomically(fs, to / name, std::string_view(fs.read(source)));
  }
}

void load_tensor(const formats::TensorArchive& archive, const std::string& name,
                 const at::Tensor& tensor) {
  const formats::TensorEntry* entry = archive.find(name);
  if (!entry) throw formats::bad_input("the checkpoint lacks a tensor", name);
  if (tensor.sizes() != at::IntArrayRef(entry->shape)) {
    throw formats::bad_input("a tensor of the checkpoint does not fit the configuration", name);
  }
  tensor.copy_(model::read_tensor(archive, *entry));
}

std::int64_t bytes_of(const model::NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

formats::Error other_data(const RunConfig& config, const std::string& of) {
  if (config.of_text()) {
    return formats::bad_input("the training text is not the one this " + of + " began with",
                              "data.corpus", "put the old text back, or start another " + of);
  }
  return formats::bad_input(
      "the samples of " + config.task.name + " are not those that this " + of + " began with",
      "task", "start another " + of);
}

Trainer::Trainer(RunConfig config, std::shared_ptr<const Corpus> corpus,
                 std::vector<formats::NamedText> validation,
                 std::shared_ptr<const model::Model> from)
    : Trainer(std::move(config), std::move(corpus), std::move(validation), nullptr,
              std::move(from)) {}

Trainer::Trainer(RunConfig config, std::shared_ptr<const TaskData> task,
                 std::shared_ptr<const model::Model> from)
    : Trainer(std::move(config), nullptr, {}, std::move(task), std::move(from)) {}

Trainer::Trainer(RunConfig config, std::shared_ptr<const Corpus> corpus,
                 std::vector<formats::NamedText> validation, std::shared_ptr<const TaskData> task,
                 std::shared_ptr<const model::Model> from)
    : config_(std::move(config)),
      corpus_(std::move(corpus)),
      task_(std::move(task)),
      from_(from ? std::move(from) : opened_start(config_)),
      tokenizer_(text_tokenizer(config_, from_.get())),
      decoder_(on_its_device(start_decoder(config_, from_.get()), config_)),
      lora_(config_.start, decoder_, static_cast<std::uint64_t>(config_.train.seed)),
      trained_(trained_names(config_.start, decoder_)),
      optimiser_(trained_parameters(decoder_, lora_, trained_), optimiser_settings(config_.train)),
      watch_(config_.train) {
  for (const formats::NamedText& text : validation) {
    validation_.push_back(tokens_of(text.text, tokenizer_.get()));
  }
  const auto is_short = [this](const std::vector<std::int64_t>& ids) {
    return static_cast<std::int64_t>(ids.size()) < config_.model.context;
  };
  short_validation_ = static_cast<std::int64_t>(std::erase_if(validation_, is_short));
  if (config_.train.average > 0) average_.emplace(with_own_tensors(decoder_, trained_));
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  at::set_num_threads(static_cast<int>(config_.train.threads > 0 ? config_.train.threads : cores));
}

model::ForwardOptions Trainer::forward_options(std::int64_t step) const {
  model::ForwardOptions options;
  const auto seed = static_cast<std::uint64_t>(config_.train.seed);
  options.backend = model::backend_named(config_.train.backend);
  options.atomic_dq = config_.train.atomic_dq;
  if (config_.train.dtype == "bf16") options.product_dtype = at::kBFloat16;
  if (const std::int64_t most = decoder_.encoding().train_shift()) {
    const formats::CounterRandom random(seed, kShiftStream);
    options.shift = static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(most) + 1, static_cast<std::uint64_t>(step)));
  }
  options.draw =
      formats::CounterRandom(seed, kPositionStream).bits(static_cast<std::uint64_t>(step));
  return options;
}

model::Drops Trainer::drops_of(const Batch& batch, std::int64_t step) const {
  const TrainSection& train = config_.train;
  const formats::CounterRandom random(static_cast<std::uint64_t>(train.seed), kDropStream);
  return {.embedding = train.embedding_dropout,
          .branch = train.dropout,
          .path = train.drop_path,
          .score = train.score_dropout,
          .seed = random.bits(static_cast<std::uint64_t>(step)),
          .first_sample = batch.first};
}

Trainer::Losses Trainer::losses_of(Batch& batch, std::int64_t step) {
  const at::Tensor inputs = ids_of(batch.inputs, batch.windows, batch.length);
  const at::Tensor targets = ids_of(batch.targets, batch.windows, batch.answers());
  model::ForwardOptions options = forward_options(step);
  options.recompute = config_.train.recompute;
  options.drops = drops_of(batch, step);
  options.kernels = &kernels_;
  add_to(options, batch);
  lora_.apply(decoder_.weights());
  const at::Tensor logits = decoder_.forward(inputs, options);
  const double smoothing = config_.train.label_smoothing;
  const at::Tensor learnt = model::cross_entropy(logits, targets, smoothing);
  if (smoothing == 0) return {learnt, learnt.item<double>()};
  return {learnt, model::cross_entropy(logits.detach(), targets).item<double>()};
}

double Trainer::add_gradients(Batch& batch, std::int64_t step, std::int64_t all) {
  const std::int64_t parts = std::min(config_.train.accumulate, batch.windows);
  if (parts == 1 && batch.counted() == all) {
    const Losses losses = losses_of(batch, step);
    losses.learnt.backward();
    return losses.told;
  }
  // The mean over all targets: each part's mean by its share of them.
  double sum = 0;
  for (std::int64_t n = 0; n < parts; ++n) {
    Batch part = part_of(batch, batch.windows * n / parts, batch.windows * (n + 1) / parts);
    const auto counted = static_cast<double>(part.counted());
    if (counted == 0) continue;
    const double share = counted / static_cast<double>(all);
    const Losses losses = losses_of(part, step);
    (losses.learnt * share).backward();
    sum += losses.told * share;
  }
  return sum;
}

Batch Trainer::own_rows(const Batch& batch) const {
  if (!ranks_) return batch;
  const std::int64_t rank = ranks_->rank(), size = ranks_->size();
  return part_of(batch, batch.windows * rank / size, batch.windows * (rank + 1) / size);
}

double Trainer::summed_over_ranks(double loss) {
  if (!ranks_) return loss;
  const std::vector<AdamW::Parameter>& parameters = optimiser_.parameters();
  // What no row of one rank reads has no gradient there.
  std::vector<double> own{loss};
  for (const auto& one : parameters) own.push_back(one.value.grad().defined() ? 1 : 0);
  const std::vector<double> all = ranks_->gathered(own);
  std::vector<double> sums(own.size());
  for (std::size_t n = 0; n < all.size(); ++n) sums[n % own.size()] += all[n];
  std::vector<at::Tensor> gradients;
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    if (sums[n + 1] == 0) continue;
    at::Tensor& gradient = parameters[n].value.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameters[n].value.detach());
    gradients.push_back(gradient);
  }
  ranks_->add_up(gradients);
  return sums[0];
}

void Trainer::require_same_weights() const {
  if (!ranks_) return;
  const at::NoGradGuard no_gradients;
  std::vector<double> own;
  for (const auto& one : optimiser_.parameters()) {
    own.push_back(one.value.sum(at::kDouble).item<double>());
  }
  const std::vector<double> all = ranks_->gathered(own);
  for (std::size_t n = 0; n < all.size(); ++n) {
    // A weight that is no number is so everywhere, and no difference.
    if (all[n] == own[n % own.size()] || std::isnan(all[n])) continue;
    throw formats::internal_error(
        ranks_->name() + " has other weights than rank " + std::to_string(n / own.size()) + " in " +
            optimiser_.parameters()[n % own.size()].name + " after step " +
            std::to_string(steps_done()),
        {}, "ranks must run on processors of one kind, with the same program");
  }
}

bool Trainer::is_own(std::size_t n) const {
  return !ranks_ ||
         n % static_cast<std::size_t>(ranks_->size()) == static_cast<std::size_t>(ranks_->rank());
}

std::vector<double> Trainer::completed(std::vector<double> values) const {
  if (!ranks_ || values.empty()) return values;
  const std::vector<double> all = ranks_->gathered(values);
  std::ranges::fill(values, 0);
  for (std::size_t n = 0; n < all.size(); ++n) values[n % values.size()] += all[n];
  return values;
}

bool Trainer::halve_parts() {
  const std::int64_t rows = batch_of_step(steps_done()).windows;
  if (ranks_ || config_.train.accumulate >= rows) return false;
  optimiser_.clear_gradients();
  config_.train.accumulate = std::min(2 * config_.train.accumulate, rows);
  return true;
}

void Trainer::update(double rate) {
  updating_ = true;
  optimiser_.step(rate);
  const at::NoGradGuard no_gradients;
  for (auto& layer : decoder_.weights().layers) decoder_.encoding().constrain(layer.encoding);
  lora_.apply(decoder_.weights());
  if (average_) {
    for (const std::string& name : trained_) {
      model::tensor_at(average_->weights(), name)
          .lerp_(model::tensor_at(decoder_.weights(), name), 1 - config_.train.average);
    }
  }
  updating_ = false;
}

protocol::MetricPoint Trainer::step() {
  const auto begun = std::chrono::steady_clock::now();
  const std::int64_t index = steps_done();
  // Encodings that draw do so from torch's generator; seeding it by the step keeps resumes exact.
  const formats::CounterRandom seeds(static_cast<std::uint64_t>(config_.train.seed), kTorchStream);
  at::manual_seed(seeds.bits(static_cast<std::uint64_t>(index)));
  Batch batch = batch_of_step(index);
  optimiser_.clear_gradients();
  Batch own = own_rows(batch);
  const double value = summed_over_ranks(add_gradients(own, index, batch.counted()));
  const double norm = optimiser_.clip_gradients(config_.train.clip);
  const bool jumps = watch_.jumps(value) || watch_.jumps(std::isfinite(norm) ? value : norm);
  if (jumps && config_.train.spike == "rewind") throw LossSpike{index + 1, value, norm};
  if (!jumps && (!std::isfinite(value) || !std::isfinite(norm))) {
    throw formats::bad_input(
        std::string(std::isfinite(value) ? "the norm of the gradient" : "the loss") +
            " is no finite number any more at step " + std::to_string(index + 1),
        "train.learning_rate", "try a smaller one");
  }
  const double rate = learning_rate_at(config_.train, index);
  if (!jumps) {
    update(rate);
    watch_.add(value);
  }
  ++steps_done_;
  samples_tokens_ += task_ ? batch.tokens() : 0;
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();

  protocol::MetricPoint point;
  point.step = steps_done();
  point.tokens = tokens_done();
  point.loss = value;
  point.lr = rate;
  point.time = seconds_;
  point.gradient_norm = norm;
  point.length = static_cast<double>(batch.length);
  return point;
}

StepCost Trainer::measured_step() {
  const std::int64_t index = config_.train.steps - 1;
  at::manual_seed(0);
  StepCost cost;
  // The first pass allocates, which later ones do not.
  for (int n = 0; n < 2; ++n) {
    const auto begun = std::chrono::steady_clock::now();
    const Batch batch = batch_of_step(index);
    Batch own = own_rows(batch);
    add_gradients(own, index, batch.counted());
    optimiser_.clear_gradients();
    cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }
  const at::NoGradGuard no_gradients;
  lora_.apply(decoder_.weights());
  const bool adapter = config_.start.lora_save == "adapter";
  const std::int64_t weights =
      bytes_of(model::named_tensors(decoder_.config(), decoder_.encoding(), decoder_.weights()));
  cost.checkpoint_bytes = bytes_of(optimiser_.state()) + bytes_of(lora_.tensors()) +
                          (adapter ? bytes_of(lora_.tensors()) : weights) +
                          (average_ ? weights : 0);
  return cost;
}

Batch Trainer::batch_of_step(std::int64_t step) const {
  if (task_) return task_->batch(step, order_);
  TrainSection train = config_.train;
  if (order_ > 0) {
    const formats::CounterRandom orders(static_cast<std::uint64_t>(train.seed), kOrderOfTextStream);
    train.seed = static_cast<std::int64_t>(orders.bits(static_cast<std::uint64_t>(order_)));
  }
  return corpus_->batch(train, config_.model.context, step);
}

std::int64_t Trainer::tokens_done() const {
  return task_ ? samples_tokens_
               : tokens_before(config_.train, config_.model.context, steps_done());
}

const std::string& Trainer::data_sha256() const {
  return task_ ? task_->sha256() : corpus_->sha256();
}

Validation Trainer::validation(protocol::Progress& progress) const {
  const at::NoGradGuard no_gradients;
  return task_ ? task_validation(progress) : Validation{text_bits(progress), std::nullopt};
}

HeadValues Trainer::head_values() const {
  const auto context = static_cast<std::size_t>(config_.model.context);
  std::vector<std::int64_t> ids{corpus_->bos()};
  if (config_.eval.probe_text.empty() && validation_.empty()) {
    throw formats::bad_input("there is no text to measure heads on", "eval.probe_text",
                             "give one, or validation texts that hold a window");
  }
  const std::vector<std::int64_t> text = config_.eval.probe_text.empty()
                                             ? validation_.front()
                                             : tokens_of(config_.eval.probe_text, tokenizer_.get());
  ids.insert(ids.end(), text.begin(), text.end());
  if (ids.size() > context) ids.resize(context);
  return training::head_values(validated(), ids, config_.eval, reading_options());
}

// As a reader of the finished model sees it.
model::ForwardOptions Trainer::reading_options() const {
  model::ForwardOptions options = forward_options(0);
  options.product_dtype.reset();
  options.shift = 0;
  options.draw.reset();
  return options;
}

Validation Trainer::task_validation(protocol::Progress& progress) const {
  const std::vector<tasks::Sample> samples = task_->validation();
  const auto at_once = static_cast<std::size_t>(config_.task.batch);
  // These have every sample, so that sums do not depend on who read it.
  std::vector<double> nats(samples.size()), correct(samples.size()), counted(samples.size());
  for (std::size_t begin = 0; begin < samples.size(); begin += at_once) {
    if (!is_own(begin / at_once)) continue;
    progress.progress(static_cast<double>(begin) / static_cast<double>(samples.size()),
                      "validation");
    progress.throw_if_cancelled();
    const auto part = std::span(samples).subspan(begin, std::min(at_once, samples.size() - begin));
    std::size_t n = begin;
    for (const Answers& one : answers_of(validated(), task_->task(), part, reading_options())) {
      correct[n] = static_cast<double>(one.score.correct);
      counted[n] = static_cast<double>(one.score.counted);
      nats[n++] = one.nats;
    }
  }
  const auto sum_of = [this](std::vector<double>& values) {
    double sum = 0;
    for (const double value : completed(std::move(values))) sum += value;
    return sum;
  };
  tasks::Score all;
  all.correct = static_cast<std::int64_t>(sum_of(correct));
  all.counted = static_cast<std::int64_t>(sum_of(counted));
  const auto targets = static_cast<double>(std::max<std::int64_t>(all.counted, 1));
  return {sum_of(nats) / targets / std::numbers::ln2, all.share()};
}

double Trainer::text_bits(protocol::Progress& progress) const {
  const std::int64_t windows = validation_.empty() ? 0 : config_.eval.windows;
  const model::ForwardOptions options = reading_options();
  std::vector<double> nats(static_cast<std::size_t>(windows));
  std::int64_t count = 0;
  for (std::int64_t w = 0; w < windows; ++w) {
    count += config_.model.context;
    if (!is_own(static_cast<std::size_t>(w))) continue;
    progress.progress(static_cast<double>(w) / static_cast<double>(windows), "validation");
    progress.throw_if_cancelled();
    std::vector<std::int64_t> ids =
        validation_window(validation_, w, config_.model.context, corpus_->bos());
    const auto length = static_cast<std::int64_t>(ids.size());
    const at::Tensor losses = model::token_losses(validated(), ids_of(ids, 1, length), options);
    nats[static_cast<std::size_t>(w)] = losses.sum().item<double>();
  }
  double sum = 0;
  for (const double one : completed(std::move(nats))) sum += one;
  return count == 0 ? std::nan("") : sum / static_cast<double>(count) / std::numbers::ln2;
}

void Trainer::write_files(formats::FileSystem& fs, const std::filesystem::path& folder) const {
  model::NamedTensors optimiser = optimiser_.state();
  for (const auto& one : lora_.tensors()) optimiser.push_back(one);
  if (lora_.there() && config_.start.lora_save == "adapter") {
    model::Weights view = decoder_.weights();  // shares the tensors
    model::NamedTensors whole;
    for (const std::string& name : trained_) {
      if (!lora_.changes(name)) whole.emplace_back(name, model::tensor_at(view, name));
    }
    lora_.write_adapter(fs, folder, from_->report.path, whole);
  } else {
    model::save_model(fs, folder, decoder_.config(), decoder_.encoding(), decoder_.weights());
    if (from_) copy_tokenizer(fs, from_->report.path, folder);
    if (!config_.data.tokenizer.empty()) copy_tokenizer(fs, config_.data.tokenizer, folder);
  }
  model::write_tensors(fs, folder / kOptimiserFile, optimiser);
  if (average_) {
    model::write_tensors(
        fs, folder / kAverageFile,
        model::named_tensors(average_->config(), average_->encoding(), average_->weights()),
        {{"format", "pt"}});
  }
}

// What the bits of a step depend on beside the configuration.
nlohmann::json Trainer::made_with() const {
  nlohmann::json made = {{"version", PHASESCOPE_VERSION},
                         {"threads", at::get_num_threads()},
                         {"instructions", at::get_cpu_capability()}};
  if (ranks_ && ranks_->size() > 1) made["ranks"] = ranks_->size();
  return made;
}

nlohmann::json Trainer::state() const {
  return {
      {"step", steps_done()},
      {"tokens", tokens_done()},
      {"seconds", seconds_},
      {"optimiser",
       {{"kind", "adamw"}, {"steps", optimiser_.steps_done()}, {"file", kOptimiserFile}}},
      {"data", {{"corpus_sha256", data_sha256()}, {"next_step", steps_done()}, {"order", order_}}},
      {"watch", watch_.state()},
      {"random", {{"kind", "counter"}, {"seed", config_.train.seed}}},
      {"config", as_noted(to_json(config_))},
      {"made_with", made_with()}};
}

std::string Trainer::differences_from(const nlohmann::json& state) const {
  std::vector<std::string> list;
  const auto compare = [&](const nlohmann::json& before, const nlohmann::json& own) {
    for (const std::string& key : differing_keys(own, before)) {
      std::string pointer = "/" + key;
      std::ranges::replace(pointer, '.', '/');
      const nlohmann::json::json_pointer at(pointer);
      const auto shown = [&at](const nlohmann::json& from) {
        return from.contains(at) ? from.at(at).dump() : "none";
      };
      list.push_back(key + " (" + shown(before) + " before, now " + shown(own) + ")");
    }
  };
  // Checkpoints of before have neither.
  if (state.contains("config")) compare(as_noted(state.at("config")), as_noted(to_json(config_)));
  if (state.contains("made_with")) compare(state.at("made_with"), made_with());
  std::string words;
  for (const std::string& one : list) words += (words.empty() ? "" : ", ") + one;
  return words;
}

void Trainer::load(const Checkpoint& checkpoint) {
  const at::NoGradGuard no_gradients;
  if (checkpoint.state.at("data").at("corpus_sha256") != data_sha256()) {
    throw other_data(config_, "run");
  }
  load_weights(checkpoint.folder);
  const auto archive = formats::TensorArchive::open(checkpoint.folder / kOptimiserFile);
  std::vector<std::pair<std::string, at::Tensor>> moments;
  for (const formats::TensorEntry& entry : archive.tensors()) {
    moments.emplace_back(entry.name, model::read_tensor(archive, entry));
  }
  for (const auto& [name, tensor] : lora_.tensors()) load_tensor(archive, name, tensor);
  lora_.apply(decoder_.weights());
  const nlohmann::json& state = checkpoint.state;
  optimiser_.load_state(moments, state.at("optimiser").at("steps").get<std::int64_t>());
  steps_done_ = state.value("step", optimiser_.steps_done());
  order_ = state.at("data").value("order", std::int64_t{0});
  // Checkpoints of before have none.
  if (state.contains("watch")) watch_.load(state.at("watch"));
  seconds_ = state.at("seconds").get<double>();
  if (task_) samples_tokens_ = state.at("tokens").get<std::int64_t>();
}

void Trainer::load_weights(const std::filesystem::path& folder) {
  if (lora_.there() && config_.start.lora_save == "adapter") {
    const auto adapter = formats::TensorArchive::open(folder / Lora::kAdapterFile);
    for (const std::string& name : trained_) {
      if (lora_.changes(name)) continue;
      load_tensor(adapter, Lora::name_in_adapter(name), model::tensor_at(decoder_.weights(), name));
    }
    return;
  }
  const auto weights = formats::TensorArchive::open(folder / "model.safetensors");
  for (const auto& [name, tensor] :
       model::named_tensors(decoder_.config(), decoder_.encoding(), decoder_.weights())) {
    // Matrices with a product beside them are the opened model's.
    if (!lora_.changes(name)) load_tensor(weights, name, tensor);
  }
  if (!average_) return;
  const auto averages = formats::TensorArchive::open(folder / kAverageFile);
  for (const std::string& name : trained_) {
    load_tensor(averages, name, model::tensor_at(average_->weights(), name));
  }
}

}  // namespace phasescope::training
