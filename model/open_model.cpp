#include "model/open_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "formats/tokenizer_files.h"
#include "model/adapter.h"
#include "model/families/family.h"
#include "model/model_files.h"
#include "model/tensor_io.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

// "nan", "inf", "all zero" or nothing.
std::string flag_of(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return {};
  if (tensor.isnan().any().item<bool>()) return "nan";
  if (tensor.isinf().any().item<bool>()) return "inf";
  return tensor.ne(0).any().item<bool>() ? "" : "all zero";
}

std::string hash_of(const formats::TensorArchive& archive) {
  std::string hashes;
  for (const auto& file : archive.files()) {
    hashes += formats::sha256_of_file(file->path());
  }
  return archive.files().size() == 1 ? hashes : formats::sha256_hex(std::string_view(hashes));
}

// Weights, keys and values of all layers, the widest layer's activations, logits.
std::int64_t memory_at_context(const ModelConfig& config, std::int64_t weight_bytes,
                               std::int64_t item_bytes) {
  const std::int64_t attention = (config.heads + 2 * config.kv_heads) * config.head_dim * 2;
  const std::int64_t per_token =
      4 * config.width + attention + 3 * config.ffn_width + config.vocab_size;
  return weight_bytes + config.context * per_token * item_bytes;
}

void fill_sizes(const ModelConfig& config, const Encoding& encoding, const Weights& weights,
                at::ScalarType dtype, LoadReport& report) {
  const NamedTensors tensors = named_tensors(config, encoding, weights);
  report.parameters = parameter_count(tensors);
  const std::int64_t item = static_cast<std::int64_t>(at::elementSize(dtype));
  report.weight_bytes = report.parameters * item;
  report.memory_bytes_at_context = memory_at_context(config, report.weight_bytes, item);
}

// "model.layers.*.rotary_emb.inv_freq" for every N of "model.layers.N.rotary_emb.inv_freq".
std::string without_layer_number(const std::string& name) {
  static const std::regex number("\\.[0-9]+\\.");
  return std::regex_replace(name, number, ".*.", std::regex_constants::format_first_only);
}

// Reads one checkpoint into canonical weights, everything checked first.
class Loader {
 public:
  Loader(const formats::TensorArchive& archive, const Translation& translation,
         const Encoding& encoding, Adapter* adapter, const OpenModelOptions& options,
         LoadReport& report)
      : archive_(archive),
        translation_(translation),
        adapter_(adapter),
        options_(options),
        report_(report) {
    for (TensorSpec& spec : tensor_specs(translation.config, encoding)) {
      order_.push_back(spec.name);
      specs_.emplace(spec.name, std::move(spec));
    }
  }

  Weights load() {
    match_names();
    check_shapes();
    if (adapter_ != nullptr) adapter_->check(archive_, report_.path);
    Weights weights = empty_weights(translation_.config);
    for (const Source& source : sources_) {
      if (options_.cancelled && options_.cancelled()) throw formats::cancelled();
      read(source, weights);
    }
    return weights;
  }

 private:
  struct Source {
    const formats::TensorEntry* entry;
    std::vector<TensorPlace> parts;
  };

  void match_names() {
    std::map<std::string, std::int64_t> ignored;  // by sentence
    for (const formats::TensorEntry& entry : archive_.tensors()) {
      ++report_.dtypes[entry.dtype_name];
      const TensorPlace place = translation_.place(entry.name);
      if (place.ignored) {
        ++ignored[without_layer_number(entry.name) + " " +
                  (place.why.empty() ? "is computed, the stored one is not read" : place.why)];
      } else if (place.name == "lm_head.weight" && translation_.config.tie_embeddings) {
        report_.tied.push_back(entry.name + " is stored, but tied to model.embed_tokens.weight");
      } else {
        add_source(entry, place);
      }
    }
    for (const auto& [sentence, count] : ignored) {
      report_.quirks.push_back(sentence +
                               (count > 1 ? " (" + std::to_string(count) + " tensors)" : ""));
    }
    const ModelConfig& config = translation_.config;
    if (config.tie_embeddings && config.head.present && report_.tied.empty()) {
      report_.tied.push_back("lm_head.weight is model.embed_tokens.weight");
    }
  }

  void add_source(const formats::TensorEntry& entry, const TensorPlace& place) {
    Source source{&entry, place.parts.empty() ? std::vector<TensorPlace>{place} : place.parts};
    for (const TensorPlace& part : source.parts) {
      if (specs_.contains(part.name)) continue;
      report_.unexpected.push_back(entry.name);
      if (entry.dtype == formats::DType::unsupported) {
        report_.flagged.push_back({entry.name, entry.dtype_name, "unsupported", entry.shape});
      }
      return;
    }
    for (const TensorPlace& part : source.parts) {
      if (!found_.insert(part.name).second) {
        throw formats::bad_input("two tensors of the file mean " + part.name, entry.name);
      }
    }
    sources_.push_back(std::move(source));
  }

  void check_shapes() {
    formats::ConfigProblems problems;
    for (const Source& source : sources_) {
      for (const TensorPlace& part : source.parts) {
        if (part.convert && part.stored.empty()) continue;
        const std::vector<std::int64_t>& shape =
            part.stored.empty() ? specs_.at(part.name).shape : part.stored;
        if (source.entry->shape == shape) continue;
        problems.add(source.entry->name,
                     "has the shape " + formats::shape_text(source.entry->shape) +
                         ", the configuration asks for " + formats::shape_text(shape));
        break;
      }
    }
    for (const std::string& name : order_) {
      if (specs_.at(name).optional || found_.contains(name)) continue;
      report_.missing.push_back(name);
      problems.add(name, "is missing from the file");
    }
    problems.throw_if_any(report_.path);
  }

  void read(const Source& source, Weights& weights) {
    const formats::TensorEntry& entry = *source.entry;
    at::Tensor tensor = read_tensor(archive_, entry);
    if (!tensor.is_floating_point()) {
      throw formats::bad_input(entry.name + " holds whole numbers, not weights", report_.path);
    }
    const std::string flag = flag_of(tensor);
    if (!flag.empty()) {
      report_.flagged.push_back({entry.name, entry.dtype_name, flag, entry.shape});
    }
    tensor = tensor.to(options_.dtype);
    if (adapter_ != nullptr) tensor = adapter_->merged(entry.name, tensor);
    for (const TensorPlace& part : source.parts) {
      const at::Tensor converted = part.convert ? part.convert(tensor) : tensor;
      if (converted.sizes() != at::IntArrayRef(specs_.at(part.name).shape)) {
        throw formats::bad_input(entry.name + " does not fit the configuration", report_.path);
      }
      tensor_at(weights, part.name) = converted.contiguous();
    }
  }

  const formats::TensorArchive& archive_;
  const Translation& translation_;
  Adapter* adapter_;  // null for none
  const OpenModelOptions& options_;
  LoadReport& report_;
  std::vector<std::string> order_;
  std::map<std::string, TensorSpec> specs_;
  std::vector<Source> sources_;
  std::set<std::string> found_;  // canonical names
};

Translation translate(const Json& config, const formats::TensorArchive& archive,
                      const std::string& where, LoadReport& report) {
  if (!config.is_object()) throw formats::bad_input("config.json holds no object", where);
  const FamilyInput input{config, archive, where};
  std::string known;
  for (const Family& family : families()) {
    if (family.claims(input)) {
      report.family = family.key;
      return family.translate(input);
    }
    known += (known.empty() ? "" : ", ") + std::string(family.key);
  }
  const std::string type =
      config.contains("model_type") ? config["model_type"].dump() : std::string("missing");
  throw formats::bad_input("model_type is " + type + ", which cannot be read", where,
                           "families that can: " + known);
}

std::shared_ptr<const formats::Tokenizer> tokenizer_of(const ModelConfig& config,
                                                       const std::string& where) {
  if (config.tokenizer.is_null()) return nullptr;
  return formats::make_tokenizer(config.tokenizer, where, config.vocab_size);
}

// The configuration's, else the file beside it. A model whose tokenizer cannot be read still reads
// ids, so that this is a warning until a text is given.
std::shared_ptr<const formats::Tokenizer> tokenizer_beside(const fs::path& config_file,
                                                           const ModelConfig& config,
                                                           LoadReport& report) {
  if (!config.tokenizer.is_null()) return tokenizer_of(config, config_file.string());
  const auto file = formats::find_tokenizer_file(config_file);
  if (!file) return nullptr;
  try {
    return formats::open_tokenizer(*file, config.vocab_size);
  } catch (const formats::Error& error) {
    report.tokenizer_fault = error.full_text();
    report.warnings.push_back("the tokenizer cannot be read: " + report.tokenizer_fault);
    return nullptr;
  }
}

void append(std::vector<std::string>& list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

std::shared_ptr<const Model> assembled(LoadReport report, ModelConfig config, Weights weights,
                                       std::shared_ptr<const formats::Tokenizer> tokenizer) {
  std::shared_ptr<const Encoding> encoding = make_encoding(config);
  fill_sizes(config, *encoding, weights, weights.embedding.scalar_type(), report);
  report.tokenizer = tokenizer ? tokenizer->name() : "";
  return std::make_shared<const Model>(
      Model{std::move(report), std::move(tokenizer),
            Decoder(std::move(config), std::move(encoding), std::move(weights))});
}

// Weights of one encoding may not do for another one.
void check_parameters(const ModelConfig& config, const Encoding& encoding, const Weights& weights) {
  Weights view = weights;
  formats::ConfigProblems problems;
  for (const TensorSpec& spec : tensor_specs(config, encoding)) {
    const at::Tensor& tensor = tensor_at(view, spec.name);
    if (!tensor.defined() ? !spec.optional : tensor.sizes() != at::IntArrayRef(spec.shape)) {
      problems.add(spec.name, "is not there in the shape the changed configuration asks for");
    }
  }
  problems.throw_if_any("--set");
}

}  // namespace

std::shared_ptr<const Model> open_model(const std::string& path_or_name,
                                        const OpenModelOptions& options) {
  const at::NoGradGuard no_grad;
  const ModelFiles files = find_model_files(path_or_name);
  const Json json = formats::json_from_file(files.config);
  std::optional<Adapter> adapter;
  if (!files.adapter.empty()) adapter = Adapter::open(files.adapter);
  const formats::TensorArchive archive =
      formats::TensorArchive::open(files.weights, {.cancelled = options.cancelled});
  LoadReport report;
  report.name = files.bundled ? path_or_name : files.name;
  report.path = files.weights.string();
  report.bundled = files.bundled;
  Translation translation = translate(json, archive, files.config.string(), report);
  report.encoding_why = translation.encoding_why;
  report.quirks = translation.quirks;
  report.warnings = files.notes;
  append(report.warnings, translation.warnings);
  append(report.warnings, archive.warnings());
  for (const std::vector<std::string>& names : archive.tied()) {
    report.tied.push_back(names[0] + " and " + names[1] + " are one tensor in the file" +
                          (names.size() > 2 ? ", as are others" : ""));
  }
  const std::unique_ptr<Encoding> encoding = make_encoding(translation.config);
  if (adapter) append(report.quirks, adapter->notes());
  Weights weights =
      Loader(archive, translation, *encoding, adapter ? &*adapter : nullptr, options, report)
          .load();
  report.sha256 = hash_of(archive);
  auto tokenizer = tokenizer_beside(files.config, translation.config, report);
  const auto model =
      assembled(std::move(report), translation.config, std::move(weights), std::move(tokenizer));
  return options.overrides.empty() ? model : with_overrides(model, options.overrides);
}

std::shared_ptr<const Model> with_overrides(
    const std::shared_ptr<const Model>& model,
    const std::vector<std::pair<std::string, std::string>>& overrides) {
  ModelConfig config = model->config();
  LoadReport report = model->report;
  for (const auto& [name, value] : overrides) {
    set_field(config, name, value);
    report.quirks.push_back("--set " + name + "=" + value);
  }
  const std::unique_ptr<Encoding> encoding = make_encoding(config);
  check_parameters(config, *encoding, model->decoder.weights());
  return assembled(std::move(report), config, model->decoder.weights(), model->tokenizer);
}

std::shared_ptr<const Model> in_dtype(const std::shared_ptr<const Model>& model,
                                      at::ScalarType dtype) {
  if (model->decoder.dtype() == dtype) return model;
  const at::NoGradGuard no_grad;
  return assembled(model->report, model->config(), converted(model->decoder.weights(), dtype),
                   model->tokenizer);
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
