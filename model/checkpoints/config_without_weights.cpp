#include "model/checkpoints/config_without_weights.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/folder_listing.h"
#include "formats/hf_config.h"  // ConfigProblems
#include "formats/json.h"
#include "formats/near_names.h"
#include "formats/quantised/dequantise.h"
#include "formats/tensors/safetensors.h"
#include "model/checkpoints/checkpoint_reader.h"
#include "model/checkpoints/model_files.h"
#include "model/families/family.h"
#include "model/families/phasescope.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

bool has_key(const Json& object, const char* key) {
  return object.is_object() && object.contains(key);
}

// The sections of a run configuration. A model's own configuration has "encoding" and "positions"
// too, and a file of these two alone means the same as either; the others tell which it is.
const std::vector<std::string>& run_sections() {
  static const std::vector<std::string> names = {"model", "start", "encoding", "positions",
                                                 "data",  "task",  "train",    "eval"};
  return names;
}

bool is_run_config(const Json& object) {
  return !has_key(object, "model_type") &&
         std::ranges::any_of(std::array{"model", "start", "data", "task", "train", "eval"},
                             [&](const char* section) { return has_key(object, section); });
}

// Keys of a run's model section that a model's own configuration has in a group.
struct GroupedKey {
  const char *key, *group, *name;
};
constexpr GroupedKey kGroupedKeys[] = {{"gated", "mlp", "gated"},
                                       {"norm", "norm", "kind"},
                                       {"norm_placement", "norm", "placement"},
                                       {"causal", "attention", "causal"},
                                       {"embedding_scale", "embedding", "scale"},
                                       {"cross_positions", "attention", "cross_positions"},
                                       {"patch_side", "patches", "side"},
                                       {"patch_kernel", "patches", "kernel"},
                                       {"patch_channels", "patches", "channels"},
                                       {"pool", "head", "pool"}};

Json in_groups(const Json& section) {
  Json model = section;
  model.erase("embedding_std");  // of the first weights alone
  for (const GroupedKey& one : kGroupedKeys) model.erase(one.key);
  for (const GroupedKey& one : kGroupedKeys) {
    if (section.contains(one.key)) model[one.group][one.name] = section.at(one.key);
  }
  return model;
}

// The model that a run configuration is about. What it leaves out has ModelConfig's defaults.
ModelConfig model_of_run(const Json& object, const std::string& where) {
  formats::ConfigProblems problems;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(run_sections(), key) == run_sections().end()) {
      problems.add(key, "unknown key" + formats::near_names(key, run_sections()));
    } else if (!value.is_object()) {
      problems.add(key, "must be an object");
    }
  }
  problems.throw_if_any(where);
  Json model = in_groups(object.value("model", Json::object()));
  // A default of its own, where a model's own configuration has as many as heads.
  if (!model.contains("kv_heads")) model["kv_heads"] = ModelConfig().kv_heads;
  for (const char* key : {"encoding", "positions"}) {
    if (object.contains(key)) model[key] = object[key];
  }
  return read_model_config(model, where);
}

ConfigAlone read_alone(const fs::path& file) {
  ConfigAlone out;
  // By the folder, as a model is named; a file of another name by that.
  const bool usual = file.filename() == "config.json" && file.has_parent_path();
  out.report.name =
      usual ? file.parent_path().string() : fs::path(file).replace_extension().string();
  out.report.path = file.string();
  out.report.warnings.emplace_back("this is a configuration without weights");
  const Json object = formats::json_from_file(file);
  if (has_key(object, "model_type")) {
    const std::vector<formats::TensorEntry> none;
    Translation read = translate({object, none, file.string(), true}, out.report.family);
    out.config = std::move(read.config);
    out.report.encoding_why = std::move(read.encoding_why);
    out.report.quirks = std::move(read.quirks);
    out.report.warnings.insert(out.report.warnings.end(), read.warnings.begin(),
                               read.warnings.end());
    if (const auto refused = formats::refused_quantisation(object)) {
      out.report.warnings.push_back(*refused);
    }
    if (out.report.family != phasescope_family().key) {
      out.report.as_library = std::make_shared<const ModelConfig>(out.config);
    }
    return out;
  }
  out.config = is_run_config(object) ? model_of_run(object, file.string())
                                     : read_model_config(object, file.string());
  out.report.family = out.config.family;
  out.report.encoding_why = "encoding.key in " + file.filename().string();
  return out;
}

// A file of settings, not the index of a sharded checkpoint.
bool is_config_file(const std::string& name) {
  return name.ends_with(".json") && !name.ends_with(".index.json") && formats::is_file(name);
}

}  // namespace

ModelConfig config_without_weights(const std::string& path_or_name,
                                   const std::function<bool()>& cancelled) {
  if (is_config_file(path_or_name)) return read_alone(path_or_name).config;
  const ModelFiles files = find_model_files(path_or_name);
  std::error_code error;
  const bool alone = files.adapter.empty() && fs::is_directory(files.weights, error) &&
                     !formats::holds_weights(files.weights);
  if (alone) return read_alone(files.config).config;
  return CheckpointReader(path_or_name, cancelled).config();
}

std::shared_ptr<const formats::Tokenizer> tokenizer_without_weights(
    const std::string& path_or_name) {
  CheckpointReader reader(path_or_name);
  return tokenizer_beside(reader, reader.report());
}

std::optional<ConfigAlone> config_alone(const std::string& path_or_name) {
  if (!is_config_file(path_or_name)) return std::nullopt;
  return read_alone(path_or_name);
}

}  // namespace phasescope::model
