#include "model/checkpoints/open_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "formats/error.h"
#include "formats/tokenizer_files.h"
#include "formats/tokenizers/gguf_tokenizer.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/constructed.h"
#include "model/checkpoints/tensor_io.h"
#include "model/idle_settings.h"
#include "model/settings.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

void fill_sizes(const ModelConfig& config, std::int64_t parameters, at::ScalarType dtype,
                LoadReport& report) {
  report.parameters = parameters;
  const std::int64_t item = static_cast<std::int64_t>(at::elementSize(dtype));
  report.weight_bytes = report.parameters * item;
  report.memory_bytes_at_context = memory_bytes(config, report.weight_bytes, item, config.context);
}

// Warnings of frequencies in the file that are not those applied; overrides may change those.
std::vector<std::string> rope_warnings(const ModelConfig& config, const LoadReport& report) {
  if (report.stored_frequencies.empty()) return {};
  return frequency_warnings(rope_plan(config, config.context, report.stored_frequencies));
}

// Once, however often a report is handed on.
void warn_of_idle_settings(const ModelConfig& config, LoadReport& report) {
  std::vector<std::string>& warnings = report.warnings;
  std::vector<std::string> sentences = idle_settings(config);
  for (std::string& sentence : rope_warnings(config, report)) {
    sentences.push_back(std::move(sentence));
  }
  for (const std::string& sentence : sentences) {
    const bool there = std::find(warnings.begin(), warnings.end(), sentence) != warnings.end();
    if (!there) warnings.push_back(sentence);
  }
}

std::shared_ptr<const formats::Tokenizer> tokenizer_of(const ModelConfig& config,
                                                       const std::string& where) {
  if (config.tokenizer.is_null()) return nullptr;
  return formats::make_tokenizer(config.tokenizer, where, config.vocab_size);
}

std::shared_ptr<const Model> assembled(LoadReport report, ModelConfig config, Weights weights,
                                       std::shared_ptr<const formats::Tokenizer> tokenizer) {
  std::shared_ptr<const Encoding> encoding = make_encoding(config);
  fill_sizes(config, parameter_count(named_tensors(config, *encoding, weights)),
             weights.embedding.scalar_type(), report);
  warn_of_idle_settings(config, report);
  report.tokenizer = tokenizer ? tokenizer->name() : "";
  return std::make_shared<const Model>(
      Model{std::move(report), std::move(tokenizer),
            Decoder(std::move(config), std::move(encoding), std::move(weights))});
}

// Weights of one encoding may not do for another one.
void check_parameters(const ModelConfig& config, const Encoding& encoding, const Weights& weights) {
  Weights view = weights;
  for (const auto& [asked, there] :
       {std::pair{config.layers, weights.layers.size()},
        std::pair{config.encoder_layers, weights.encoder.layers.size()}}) {
    if (asked <= static_cast<std::int64_t>(there)) continue;
    throw formats::bad_input("the weights have " + std::to_string(there) +
                                 " layers, the changed configuration asks for " +
                                 std::to_string(asked),
                             "--set");
  }
  formats::ConfigProblems problems;
  for (const TensorSpec& spec : tensor_specs(config, encoding)) {
    const at::Tensor& tensor = tensor_at(view, spec.name);
    if (!tensor.defined() ? !spec.optional : tensor.sizes() != at::IntArrayRef(spec.shape)) {
      problems.add(spec.name, "is not there in the shape the changed configuration asks for");
    }
  }
  problems.throw_if_any("--set");
}

// The report of weights that no longer lie in a mapped file.
LoadReport of_copies(LoadReport report) {
  if (!report.mapped_words.empty()) std::erase(report.quirks, report.mapped_words);
  report.mapped_words.clear();
  report.mapped_bytes = 0;
  return report;
}

}  // namespace

std::int64_t memory_bytes(const ModelConfig& config, std::int64_t weight_bytes,
                          std::int64_t item_bytes, std::int64_t length) {
  constexpr std::int64_t kLogits = std::int64_t{16} << 20;  // a block of rows: model/loss.cpp
  const std::int64_t heads = 3 * (config.heads + config.kv_heads) * config.head_dim;
  const std::int64_t mlp = (config.mlp.gated ? 3 : 2) * config.ffn_width;
  const std::int64_t memory = config.encoder_layers > 0 ? config.width : 0;  // the encoder's output
  const std::int64_t per_token = 4 * config.width + heads + mlp + memory;
  const std::int64_t logits =
      config.head.present ? std::min(length, 1 + kLogits / config.vocab_size) * config.vocab_size
                          : 0;
  return weight_bytes + (length * per_token + logits) * item_bytes;
}

double LoadProgress::fraction() const {
  return total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
}

std::string LoadProgress::words() const {
  constexpr double kTellable = 1;  // seconds after which a rate is one
  const double whole = static_cast<double>(total), unit = whole < 1e9 ? 1e6 : 1e9;
  char text[96];
  std::snprintf(text, sizeof text, "%.1f of %.1f %s", static_cast<double>(done) / unit,
                whole / unit, whole < 1e9 ? "MB" : "GB");
  if (seconds < kTellable || done == 0 || done > total) return text;
  const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
  std::snprintf(text + std::char_traits<char>::length(text), 32, ", %.0f s left", std::ceil(left));
  return text;
}

std::shared_ptr<const formats::Tokenizer> tokenizer_beside(const CheckpointReader& reader,
                                                           LoadReport& report) {
  const ModelConfig& config = reader.config();
  const std::string where = reader.files().config.string();
  if (!config.tokenizer.is_null()) return tokenizer_of(config, where);
  const auto file = formats::find_tokenizer_file(reader.files().config);
  try {
    if (auto own = formats::make_gguf_tokenizer(reader.gguf_keys(), where, config.vocab_size)) {
      return own;
    }
    return file ? formats::open_tokenizer(*file, config.vocab_size) : nullptr;
  } catch (const formats::Error& error) {
    report.tokenizer_fault = error.full_text();
    report.warnings.push_back("the tokenizer cannot be read: " + report.tokenizer_fault);
    return nullptr;
  }
}

at::ScalarType dtype_to_compute_in(const std::string& asked, const at::Device& device,
                                   const std::string& path_or_name) {
  if (asked != "auto") return dtype_of_name(asked);
  if (device.is_cpu() || find_constructed(path_or_name) != nullptr) return at::kFloat;
  const CheckpointReader reader(path_or_name);
  std::map<at::ScalarType, std::int64_t> numbers;
  std::int64_t all = 0;
  for (const std::string& name : reader.names()) {
    numbers[reader.stored_dtype(name)] += reader.elements(name);
    all += reader.elements(name);
  }
  for (const at::ScalarType narrow : {at::kBFloat16, at::kHalf}) {
    if (2 * numbers[narrow] > all) return narrow;
  }
  return at::kFloat;
}

std::shared_ptr<const Model> open_model(const std::string& path_or_name,
                                        const OpenModelOptions& options) {
  const at::NoGradGuard no_grad;
  if (const ConstructedEntry* entry = find_constructed(path_or_name)) {
    const auto model = opened(entry->make(), entry->name, options.dtype);
    return options.overrides.empty() ? model : with_overrides(model, options.overrides);
  }
  CheckpointReader reader(path_or_name, options.cancelled);
  Weights weights = reader.load(options.dtype, options.progress, options.memory);
  LoadReport report = std::move(reader.report());
  auto tokenizer = tokenizer_beside(reader, report);
  const auto model =
      assembled(std::move(report), reader.config(), std::move(weights), std::move(tokenizer));
  return options.overrides.empty() ? model : with_overrides(model, options.overrides);
}

LoadReport unread_report(CheckpointReader& reader, at::ScalarType dtype) {
  reader.look_at_values();
  LoadReport report = reader.report();
  std::int64_t parameters = 0;
  for (const std::string& name : reader.names()) parameters += reader.elements(name);
  fill_sizes(reader.config(), parameters, dtype, report);
  warn_of_idle_settings(reader.config(), report);
  const auto tokenizer = tokenizer_beside(reader, report);
  report.tokenizer = tokenizer ? tokenizer->name() : "";
  report.sha256 = reader.hash();
  return report;
}

std::shared_ptr<const Model> with_overrides(
    const std::shared_ptr<const Model>& model,
    const std::vector<std::pair<std::string, std::string>>& overrides, const std::string& name) {
  ModelConfig config = model->config();
  LoadReport report = model->report;
  if (!name.empty()) report.name = name;
  // What was idle may be so no longer.
  for (const std::string& sentence : rope_warnings(config, report)) {
    std::erase(report.warnings, sentence);
  }
  for (const std::string& sentence : idle_settings(config)) {
    std::erase(report.warnings, sentence);
  }
  set_fields(config, overrides);
  for (const auto& [key, value] : overrides) {
    report.quirks.push_back("--set " + key + "=" + value);
  }
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  check_parameters(config, *encoding, model->decoder.weights());
  return assembled(std::move(report), config, model->decoder.weights(), model->tokenizer);
}

std::shared_ptr<const Model> in_dtype(const std::shared_ptr<const Model>& model,
                                      at::ScalarType dtype) {
  if (model->decoder.dtype() == dtype) return model;
  const at::NoGradGuard no_grad;
  return assembled(of_copies(model->report), model->config(),
                   converted(model->decoder.weights(), dtype), model->tokenizer);
}

std::shared_ptr<const Model> on_device(const std::shared_ptr<const Model>& model,
                                       const at::Device& device) {
  const Decoder& decoder = model->decoder;
  if (decoder.device() == device) return model;
  const at::NoGradGuard no_grad;
  Weights weights = on_device(decoder.config(), decoder.encoding(), decoder.weights(), device);
  return std::make_shared<const Model>(
      Model{of_copies(model->report), model->tokenizer,
            Decoder(decoder.config(), decoder.shared_encoding(), std::move(weights))});
}

std::shared_ptr<const Model> random_model(const ModelConfig& config, std::uint64_t seed,
                                          at::ScalarType dtype) {
  formats::ConfigProblems problems;
  check_model_config(config, problems);
  problems.throw_if_any("random model");
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  return model_of(config, converted(init_weights(config, *encoding, seed), dtype),
                  "random, seed " + std::to_string(seed));
}

std::shared_ptr<const Model> model_of(ModelConfig config, Weights weights,
                                      const std::string& name) {
  LoadReport report;
  report.name = name;
  report.family = config.family;
  report.encoding_why = "its configuration";
  auto tokenizer = tokenizer_of(config, name);
  return assembled(std::move(report), std::move(config), std::move(weights), std::move(tokenizer));
}

void save_model(formats::FileSystem& fs, const std::filesystem::path& folder,
                const ModelConfig& config, const Encoding& encoding, const Weights& weights,
                at::ScalarType dtype) {
  NamedTensors tensors = named_tensors(config, encoding, weights);
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().to(dtype);
  write_tensors(fs, folder / "model.safetensors", tensors, {{"format", "pt"}});
  formats::write_file_atomically(fs, folder / "config.json",
                                 write_model_config(config).dump(2) + "\n");
}

}  // namespace phasescope::model
