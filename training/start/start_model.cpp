#include "training/start/start_model.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "formats/error.h"
#include "formats/json.h"
#include "formats/sha256.h"
#include "formats/tokenizer_files.h"
#include "formats/utf8.h"
#include "model/checkpoints/config_without_weights.h"
#include "model/checkpoints/named_start.h"
#include "protocol/json_form.h"
#include "tasks/vocabulary.h"
#include "training/start/name_pattern.h"

namespace phasescope::training {
namespace {

using model::ModelConfig;

// A task with ids of its own has its symbols here, with the lengths it was trained at.
nlohmann::json tokenizer_of(const RunConfig& config, const nlohmann::json& of_texts) {
  const tasks::Task* task = tasks::find_task(config.task.name);
  if (task == nullptr || !tasks::has_own_ids(*task)) return of_texts;
  nlohmann::json tokenizer = tasks::tokenizer_of(*task);
  tokenizer["trained"] = {config.task.shortest, config.task.longest};
  return tokenizer;
}

// What the model section says.
ModelConfig described_model(const RunConfig& config) {
  const ModelSection& m = config.model;
  ModelConfig model;
  model.vocab_size = m.vocab_size;
  model.width = m.width;
  model.layers = m.layers;
  model.heads = m.heads;
  model.kv_heads = m.kv_heads;
  model.head_dim = m.width / m.heads;
  model.ffn_width = m.ffn_width;
  model.mlp.gated = m.gated;
  model.mlp.activation = m.activation;
  model.norm.kind = m.norm;
  model.norm.placement = m.norm_placement;
  model.attention.causal = m.causal;
  model.attention.cross_positions = m.cross_positions;
  model.encoder_layers = m.encoder_layers;
  model.tie_embeddings = m.tie_embeddings;
  model.embedding.scale = m.embedding_scale;
  model.patches = {m.patch_side, m.patch_kernel, m.patch_channels};
  model.head.pool = m.pool;
  model.norm_eps = m.norm_eps;
  model.init_std = m.init_std;
  // A file beside the configuration is found where that says nothing.
  if (!config.data.tokenizer.empty()) return model;
  model.tokenizer =
      tokenizer_of(config, {{"type", "bytes"}, {"vocab_size", 256}, {"bos", config.data.bos}});
  return model;
}

// The opened model's own.
ModelConfig opened_model(const RunConfig& config) {
  ModelConfig model = model::config_without_weights(config.start.model);
  model.tokenizer = tokenizer_of(config, model.tokenizer);
  return model;
}

// As a model section has it. Sizes that no section has stay the model's own all the same.
ModelSection section_of(const ModelConfig& own) {
  return {.vocab_size = own.vocab_size,
          .context = own.context,
          .layers = own.layers,
          .width = own.width,
          .heads = own.heads,
          .kv_heads = own.kv_heads,
          .ffn_width = own.ffn_width,
          .activation = own.mlp.activation,
          .gated = own.mlp.gated,
          .norm = own.norm.kind,
          .norm_placement = own.norm.placement == "output" ? "post" : own.norm.placement,
          .causal = own.attention.causal,
          .encoder_layers = own.encoder_layers,
          .cross_positions = own.attention.cross_positions,
          .patch_side = own.patches.side,
          .patch_kernel = own.patches.kernel,
          .patch_channels = own.patches.channels,
          .pool = own.head.pool,
          .tie_embeddings = own.tie_embeddings,
          .embedding_scale = own.embedding.scale,
          .norm_eps = own.norm_eps,
          .init_std = own.init_std,
          .embedding_std = 0,
          .note = own.note};
}

bool has_name(const model::NamedTensors& tensors, const std::string& name) {
  return std::ranges::any_of(tensors, [&](const auto& one) { return one.first == name; });
}

bool of_an_encoding(const std::string& name) { return name.find("encoding.") != std::string::npos; }

// An adapter holds tensors alone: whoever reads it reads the base's configuration.
void require_adaptable(const RunConfig& config, const ModelConfig& trained,
                       const ModelConfig& base) {
  if (config.start.lora_save != "adapter") return;
  const auto said = [](const ModelConfig& model) {
    const nlohmann::json all = model::write_model_config(model);
    return nlohmann::json{all.value("encoding", nlohmann::json()),
                          all.value("positions", nlohmann::json())};
  };
  if (said(trained) == said(base)) return;
  throw formats::bad_input("an adapter cannot say that the model has another encoding now",
                           "start.lora_save", "save it merged");
}

}  // namespace

ModelConfig model_config_of(const RunConfig& config) {
  ModelConfig model = config.from_model() ? opened_model(config) : described_model(config);
  model.context = config.model.context;
  model.note = config.model.note;
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
  formats::ConfigProblems problems;
  model::check_model_config(model, problems);
  problems.throw_if_any("the run configuration");
  return model;
}

void check_patterns(const StartSection& start, const ModelConfig& config) {
  const auto encoding = model::make_encoding(config);
  std::vector<std::string> names, matrices;
  for (const model::TensorSpec& spec : model::tensor_specs(config, *encoding)) {
    names.push_back(spec.name);
    if (spec.shape.size() == 2) matrices.push_back(spec.name);
  }
  require_matches(start.train, names, "tensor", "start.train");
  require_matches(start.freeze, names, "tensor", "start.freeze");
  if (start.lora_rank > 0) require_matches(start.lora, matrices, "matrix", "start.lora");
}

nlohmann::json filled_in_from_model(nlohmann::json given) {
  const auto start = given.is_object() ? given.find("start") : given.end();
  if (!given.is_object() || start == given.end() || !start->is_object()) return given;
  const nlohmann::json name = start->value("model", nlohmann::json(""));
  if (!name.is_string() || name.get<std::string>().empty()) return given;
  const ModelConfig own = model::config_without_weights(name.get<std::string>());
  const nlohmann::json context = start->value("context", nlohmann::json(0));
  nlohmann::json section = protocol::to_json_form(section_of(own));
  if (context.is_number_integer() && context > 0) section["context"] = context;
  if (const auto said = given.find("model"); said != given.end() && said->is_object()) {
    if (said->contains("note")) section["note"] = said->at("note");
  }
  given["model"] = std::move(section);
  if (!given.contains("encoding")) {
    given["encoding"] = own.encoding.options;
    given["encoding"]["key"] = own.encoding.key;
  }
  if (!given.contains("positions")) {
    const model::PositionsConfig& p = own.positions;
    given["positions"] = {{"map", p.map},     {"shift", p.shift}, {"factor", p.factor},
                          {"range", p.range}, {"draw", p.draw},   {"seed", p.seed}};
  }
  return given;
}

RunConfig whole_run_config(const std::filesystem::path& file) {
  const formats::JsonRules each_key_once{.duplicate_keys = formats::DuplicateKeys::refuse};
  return run_config_from_json(filled_in_from_model(formats::json_from_file(file, each_key_once)),
                              file.string());
}

std::shared_ptr<const model::Model> opened_start(const RunConfig& config) {
  if (!config.from_model()) return nullptr;
  auto model = model::open_model(config.start.model, {.dtype = at::kFloat});
  const std::string& noted = config.start.model_sha256;
  if (noted.empty() || noted == model->report.sha256) return model;
  throw formats::bad_input("the model that this training began with has other weights now",
                           config.start.model, "put the old ones back, or start another training");
}

std::filesystem::path tokenizer_file(const DataSection& data) {
  if (const auto file = formats::find_tokenizer_file(data.tokenizer)) return *file;
  throw formats::bad_input("there is no tokenizer at " + formats::in_quotes(data.tokenizer),
                           "data.tokenizer",
                           "name a tokenizer.json or .model, or the folder that it is in");
}

std::shared_ptr<const formats::Tokenizer> text_tokenizer(const RunConfig& config,
                                                         const model::Model* from) {
  if (from != nullptr) {
    const bool bytes = !from->tokenizer || from->tokenizer->name() == "bytes";
    return bytes ? nullptr : from->tokenizer;
  }
  if (config.data.tokenizer.empty()) return nullptr;
  const std::filesystem::path file = tokenizer_file(config.data);
  const std::string& noted = config.data.tokenizer_sha256;
  if (!noted.empty() && noted != formats::sha256_of_file(file)) {
    throw formats::bad_input("the tokenizer is not the one that this training began with",
                             file.string(), "put the old one back, or start another training");
  }
  return formats::open_tokenizer(file, config.model.vocab_size);
}

model::Decoder start_decoder(const RunConfig& config, const model::Model* from) {
  const at::NoGradGuard no_gradients;
  const ModelConfig model = model_config_of(config);
  std::shared_ptr<const model::Encoding> encoding = model::make_encoding(model);
  // What an opened model lacks must not depend on what it has.
  const bool by_name = config.train.init == "named" || from != nullptr;
  const auto draw = by_name ? model::weights_by_name : model::init_weights;
  auto weights = draw(model, *encoding, static_cast<std::uint64_t>(config.train.seed));
  if (from == nullptr) {
    // Drawn with init_std, as all matrices.
    if (const double std = config.model.embedding_std; std > 0) {
      weights.embedding.mul_(std / config.model.init_std);
    }
    return model::Decoder(model, encoding, std::move(weights));
  }
  require_adaptable(config, model, from->config());
  const model::Decoder& source = from->decoder;
  const model::NamedTensors given =
      model::named_tensors(source.config(), source.encoding(), source.weights());
  std::map<std::string, at::Tensor> known(given.begin(), given.end());
  for (const model::TensorSpec& spec : model::tensor_specs(model, *encoding)) {
    const auto found = known.find(spec.name);
    const bool there = found != known.end();
    if (there && found->second.sizes() == at::IntArrayRef(spec.shape)) {
      model::tensor_at(weights, spec.name) = found->second.clone();
    } else if (!of_an_encoding(spec.name) && (there || !spec.optional)) {
      throw formats::bad_input(there ? "a tensor of the model has another size than is trained"
                                     : "the model lacks a tensor that is trained",
                               spec.name);
    }
  }
  return model::Decoder(model, encoding, std::move(weights));
}

std::vector<std::string> trained_names(const StartSection& start, const model::Decoder& decoder) {
  const model::NamedTensors there =
      model::named_tensors(decoder.config(), decoder.encoding(), decoder.weights());
  std::vector<std::string> all;
  for (const auto& one : there) all.push_back(one.first);
  require_matches(start.train, all, "tensor", "start.train");
  require_matches(start.freeze, all, "tensor", "start.freeze");
  std::vector<std::string> names;
  for (const model::TensorSpec& spec : model::tensor_specs(decoder.config(), decoder.encoding())) {
    if (!spec.trainable || !has_name(there, spec.name)) continue;
    const bool unnamed = start.train.empty() && start.lora_rank == 0;
    if (!unnamed && !matches_any(start.train, spec.name)) continue;
    if (!matches_any(start.freeze, spec.name)) names.push_back(spec.name);
  }
  return names;
}

}  // namespace phasescope::training
