#include "formats/model_tensors.h"

#include <nlohmann/json.hpp>

#include "formats/gguf_model.h"
#include "formats/quantised/dequantise.h"

namespace phasescope::formats {
namespace {

ModelTensors of_gguf(const std::filesystem::path& path, const OpenOptions& options) {
  GgufModel model = open_gguf_model(path, options);
  return {std::move(model.config), TensorArchive::of(std::move(model.tensors)),
          std::move(model.keys), std::move(model.quirks), std::move(model.warnings)};
}

ModelTensors of_checkpoint(const std::filesystem::path& config,
                           const std::filesystem::path& weights, const OpenOptions& options) {
  Json json = json_from_file(config);
  std::vector<std::string> warnings;
  TensorArchive archive =
      dequantised(TensorArchive::open(weights, options), json, config.string(), warnings);
  return {std::move(json), std::move(archive), Json(), {}, std::move(warnings)};
}

}  // namespace

ModelTensors open_model_tensors(const std::filesystem::path& config,
                                const std::filesystem::path& weights, const OpenOptions& options) {
  // A file of another name may be one too.
  const bool gguf = config == weights && is_gguf_file(weights);
  ModelTensors opened = gguf || config.extension() == ".gguf"
                            ? of_gguf(weights, options)
                            : of_checkpoint(config, weights, options);
  const std::string label = decoded_label(decoded_tensors(opened.archive.tensors()));
  if (!label.empty()) {
    opened.quirks.insert(opened.quirks.begin(),
                         "weights are dequantised once, as they are loaded: " + label);
  }
  return opened;
}

}  // namespace phasescope::formats
