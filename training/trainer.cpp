#include "training/trainer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numbers>
#include <thread>

#include "formats/error.h"
#include "formats/tensors/safetensors.h"
#include "model/checkpoints/named_start.h"
#include "model/checkpoints/open_model.h"
#include "model/checkpoints/tensor_io.h"
#include "model/loss.h"
#include "tasks/vocabulary.h"
#include "training/counter_random.h"
#include "training/evals/task_answers.h"
#include "training/schedule.h"

namespace phasescope::training {
namespace {

constexpr std::uint64_t kShiftStream = 2;
constexpr std::uint64_t kTorchStream = 3;
constexpr std::uint64_t kPositionStream = 4;
constexpr const char* kOptimiserFile = "optimiser.safetensors";

model::Decoder fresh_decoder(const RunConfig& config) {
  const model::ModelConfig model = model_config_of(config);
  std::shared_ptr<const model::Encoding> encoding = model::make_encoding(model);
  const auto draw = config.train.init == "named" ? model::weights_by_name : model::init_weights;
  auto weights = draw(model, *encoding, static_cast<std::uint64_t>(config.train.seed));
  // Drawn with init_std, as all matrices.
  if (const double std = config.model.embedding_std; std > 0) {
    weights.embedding.mul_(std / config.model.init_std);
  }
  return model::Decoder(model, encoding, std::move(weights));
}

// Of the tensors that are there: an encoding's optional ones may be absent.
std::vector<AdamW::Parameter> trained_parameters(const model::Decoder& decoder) {
  std::map<std::string, at::Tensor> there;
  for (const auto& [name, tensor] :
       model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights())) {
    there.emplace(name, tensor);
  }
  std::vector<AdamW::Parameter> parameters;
  for (const model::TensorSpec& spec : model::tensor_specs(decoder.config(), decoder.encoding())) {
    const auto found = there.find(spec.name);
    if (found == there.end() || !spec.trainable) continue;
    found->second.set_requires_grad(true);
    parameters.push_back({spec.name, found->second, spec.decays});
  }
  return parameters;
}

// What the bits of a step depend on beside the configuration.
nlohmann::json made_with() {
  return {{"version", PHASESCOPE_VERSION},
          {"threads", at::get_num_threads()},
          {"instructions", at::get_cpu_capability()}};
}

AdamWSettings optimiser_settings(const TrainSection& train) {
  return {train.beta1, train.beta2, train.epsilon, train.weight_decay};
}

at::Tensor ids_of(std::vector<int64_t>& values, int64_t rows, int64_t columns) {
  return at::from_blob(values.data(), {rows, columns}, at::kLong);
}

// Window w of the validation: texts in turn, and of each text its successive windows.
std::vector<int64_t> validation_window(const std::vector<formats::NamedText>& texts, int64_t w,
                                       int64_t length, int64_t bos) {
  const auto count = static_cast<int64_t>(texts.size());
  const std::string& text = texts[static_cast<std::size_t>(w % count)].text;
  const int64_t windows = static_cast<int64_t>(text.size()) / length;
  std::vector<int64_t> ids{bos};
  if (windows == 0) return ids;
  const auto start = static_cast<std::size_t>((w / count) % windows * length);
  for (int64_t i = 0; i < length; ++i) {
    ids.push_back(static_cast<unsigned char>(text[start + static_cast<std::size_t>(i)]));
  }
  return ids;
}

}  // namespace

namespace {

// Of a task with ids of its own its symbols, with the lengths it was trained at.
nlohmann::json tokenizer_of(const RunConfig& config) {
  const tasks::Task* task = tasks::find_task(config.task.name);
  if (task == nullptr || !tasks::has_own_ids(*task)) {
    return {{"type", "bytes"}, {"vocab_size", 256}, {"bos", config.data.bos}};
  }
  nlohmann::json tokenizer = tasks::tokenizer_of(*task);
  tokenizer["trained"] = {config.task.shortest, config.task.longest};
  return tokenizer;
}

}  // namespace

model::ModelConfig model_config_of(const RunConfig& config) {
  model::ModelConfig model;
  model.vocab_size = config.model.vocab_size;
  model.width = config.model.width;
  model.layers = config.model.layers;
  model.heads = config.model.heads;
  model.kv_heads = config.model.kv_heads;
  model.head_dim = config.model.width / config.model.heads;
  model.ffn_width = config.model.ffn_width;
  model.context = config.model.context;
  model.mlp.gated = config.model.gated;
  model.mlp.activation = config.model.activation;
  model.norm.kind = config.model.norm;
  model.norm.placement = config.model.norm_placement;
  model.attention.causal = config.model.causal;
  model.encoder_layers = config.model.encoder_layers;
  model.tie_embeddings = config.model.tie_embeddings;
  model.embedding.scale = config.model.embedding_scale;
  model.norm_eps = config.model.norm_eps;
  model.init_std = config.model.init_std;
  model.encoding.key = config.encoding.at("key").get<std::string>();
  model.encoding.options = config.encoding;
  model.encoding.options.erase("key");
  const PositionsSection& positions = config.positions;
  model.positions = {.map = positions.map,
                     .shift = positions.shift,
                     .factor = positions.factor,
                     .range = positions.range,
                     .draw = positions.draw,
                     .seed = positions.seed};
  model.tokenizer = tokenizer_of(config);
  model.note = config.model.note;
  formats::ConfigProblems problems;
  model::check_model_config(model, problems);
  problems.throw_if_any("the run configuration");
  return model;
}

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
                 std::vector<formats::NamedText> validation)
    : Trainer(std::move(config), std::move(corpus), std::move(validation), nullptr) {}

Trainer::Trainer(RunConfig config, std::shared_ptr<const TaskData> task)
    : Trainer(std::move(config), nullptr, {}, std::move(task)) {}

Trainer::Trainer(RunConfig config, std::shared_ptr<const Corpus> corpus,
                 std::vector<formats::NamedText> validation, std::shared_ptr<const TaskData> task)
    : config_(std::move(config)),
      corpus_(std::move(corpus)),
      task_(std::move(task)),
      validation_(std::move(validation)),
      decoder_(fresh_decoder(config_)),
      optimiser_(trained_parameters(decoder_), optimiser_settings(config_.train)) {
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  at::set_num_threads(static_cast<int>(config_.train.threads > 0 ? config_.train.threads : cores));
}

model::ForwardOptions Trainer::forward_options(int64_t step) const {
  model::ForwardOptions options;
  const auto seed = static_cast<std::uint64_t>(config_.train.seed);
  options.backend = model::backend_named(config_.train.backend);
  if (config_.train.dtype == "bf16") options.product_dtype = at::kBFloat16;
  if (const int64_t most = decoder_.encoding().train_shift()) {
    const CounterRandom random(seed, kShiftStream);
    options.shift = static_cast<int64_t>(
        random.below(static_cast<std::uint64_t>(most) + 1, static_cast<std::uint64_t>(step)));
  }
  options.draw = CounterRandom(seed, kPositionStream).bits(static_cast<std::uint64_t>(step));
  return options;
}

protocol::MetricPoint Trainer::step() {
  const auto begun = std::chrono::steady_clock::now();
  const int64_t index = steps_done();
  // Encodings that draw do so from torch's generator; seeding it by the step keeps resumes exact.
  const CounterRandom seeds(static_cast<std::uint64_t>(config_.train.seed), kTorchStream);
  at::manual_seed(seeds.bits(static_cast<std::uint64_t>(index)));
  Batch batch = batch_of_step(index);
  const at::Tensor inputs = ids_of(batch.inputs, batch.windows, batch.length);
  const at::Tensor targets = ids_of(batch.targets, batch.windows, batch.answers());
  optimiser_.clear_gradients();
  model::ForwardOptions options = forward_options(index);
  options.kernels = &kernels_;
  add_to(options, batch);
  const at::Tensor loss = model::cross_entropy(decoder_.forward(inputs, options), targets);
  loss.backward();
  const double value = loss.item<double>();
  const double norm = optimiser_.clip_gradients(config_.train.clip);
  if (!std::isfinite(value) || !std::isfinite(norm)) {
    throw formats::bad_input(
        "the loss is no finite number any more at step " + std::to_string(index + 1),
        "train.learning_rate", "try a smaller one");
  }
  const double rate = learning_rate_at(config_.train, index);
  updating_ = true;
  optimiser_.step(rate);
  const at::NoGradGuard no_gradients;
  for (auto& layer : decoder_.weights().layers) decoder_.encoding().constrain(layer.encoding);
  updating_ = false;
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

Batch Trainer::batch_of_step(int64_t step) const {
  return task_ ? task_->batch(step) : corpus_->batch(config_.train, config_.model.context, step);
}

int64_t Trainer::tokens_done() const {
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
  double nats = 0;
  tasks::Score all;
  for (std::size_t begin = 0; begin < samples.size(); begin += at_once) {
    progress.progress(static_cast<double>(begin) / static_cast<double>(samples.size()),
                      "validation");
    progress.throw_if_cancelled();
    const auto part = std::span(samples).subspan(begin, std::min(at_once, samples.size() - begin));
    for (const Answers& one : answers_of(decoder_, task_->task(), part, reading_options())) {
      all.correct += one.score.correct, all.counted += one.score.counted;
      nats += one.nats;
    }
  }
  const auto counted = static_cast<double>(std::max<int64_t>(all.counted, 1));
  return {nats / counted / std::numbers::ln2, all.share()};
}

double Trainer::text_bits(protocol::Progress& progress) const {
  const int64_t windows = config_.eval.windows;
  const model::ForwardOptions options = reading_options();
  double nats = 0;
  int64_t count = 0;
  for (int64_t w = 0; w < windows; ++w) {
    progress.progress(static_cast<double>(w) / static_cast<double>(windows), "validation");
    progress.throw_if_cancelled();
    std::vector<int64_t> ids =
        validation_window(validation_, w, config_.model.context, config_.data.bos);
    if (ids.size() < 2) continue;
    const auto length = static_cast<int64_t>(ids.size());
    const at::Tensor losses = model::token_losses(decoder_, ids_of(ids, 1, length), options);
    nats += losses.sum().item<double>();
    count += length - 1;
  }
  return count == 0 ? std::nan("") : nats / static_cast<double>(count) / std::numbers::ln2;
}

void Trainer::write_files(formats::FileSystem& fs, const std::filesystem::path& folder) const {
  model::save_model(fs, folder, decoder_.config(), decoder_.encoding(), decoder_.weights());
  model::write_tensors(fs, folder / kOptimiserFile, optimiser_.state());
}

nlohmann::json Trainer::state() const {
  return {{"step", steps_done()},
          {"tokens", tokens_done()},
          {"seconds", seconds_},
          {"optimiser", {{"kind", "adamw"}, {"steps", steps_done()}, {"file", kOptimiserFile}}},
          {"data", {{"corpus_sha256", data_sha256()}, {"next_step", steps_done()}}},
          {"random", {{"kind", "counter"}, {"seed", config_.train.seed}}},
          {"config", to_json(config_)},
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
  if (state.contains("config")) compare(with_defaults(state.at("config")), to_json(config_));
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
  const auto weights = formats::TensorArchive::open(checkpoint.folder / "model.safetensors");
  for (const auto& [name, tensor] :
       model::named_tensors(decoder_.config(), decoder_.encoding(), decoder_.weights())) {
    const formats::TensorEntry* entry = weights.find(name);
    if (!entry) throw formats::bad_input("the checkpoint lacks a tensor", name);
    if (tensor.sizes() != at::IntArrayRef(entry->shape)) {
      throw formats::bad_input("a tensor of the checkpoint does not fit the configuration", name);
    }
    tensor.copy_(model::read_tensor(weights, *entry));
  }
  const auto archive = formats::TensorArchive::open(checkpoint.folder / kOptimiserFile);
  std::vector<std::pair<std::string, at::Tensor>> moments;
  for (const formats::TensorEntry& entry : archive.tensors()) {
    moments.emplace_back(entry.name, model::read_tensor(archive, entry));
  }
  optimiser_.load_state(moments, checkpoint.state.at("optimiser").at("steps").get<int64_t>());
  seconds_ = checkpoint.state.at("seconds").get<double>();
  if (task_) samples_tokens_ = checkpoint.state.at("tokens").get<int64_t>();
}

}  // namespace phasescope::training
