#include "model/config_without_weights.h"

#include <filesystem>
#include <vector>

#include "formats/json.h"
#include "formats/safetensors.h"
#include "model/checkpoint_reader.h"
#include "model/families/family.h"
#include "model/model_files.h"

namespace phasescope::model {
namespace {

namespace fs = std::filesystem;

bool is_object_with(const Json& value, const char* key) {
  return value.is_object() && value.contains(key);
}

ModelConfig config_of_file(const fs::path& file) {
  Json object = formats::json_from_file(file);
  if (is_object_with(object, "model") && object["model"].is_object()) {  // a run configuration
    Json model = object["model"];
    if (object.contains("encoding")) model["encoding"] = object["encoding"];
    return read_model_config(model, file.string());
  }
  if (!is_object_with(object, "model_type")) return read_model_config(object, file.string());
  const std::vector<formats::TensorEntry> none;
  std::string family;
  return translate({object, none, file.string(), true}, family).config;
}

// A file of settings, not the index of a sharded checkpoint.
bool is_config_file(const std::string& name) {
  std::error_code error;
  return name.ends_with(".json") && !name.ends_with(".index.json") &&
         fs::is_regular_file(name, error);
}

}  // namespace

ModelConfig config_without_weights(const std::string& path_or_name,
                                   const std::function<bool()>& cancelled) {
  if (is_config_file(path_or_name)) return config_of_file(path_or_name);
  const ModelFiles files = find_model_files(path_or_name);
  std::error_code error;
  const bool alone = files.adapter.empty() && fs::is_directory(files.weights, error) &&
                     !formats::holds_weights(files.weights);
  if (alone) return config_of_file(files.config);
  return CheckpointReader(path_or_name, cancelled).config();
}

}  // namespace phasescope::model
