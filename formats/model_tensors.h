#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/tensors/safetensors.h"

namespace phasescope::formats {

// A checkpoint's configuration and tensors in the plain form, whatever form they have on disk: a
// GGUF file is turned into Hugging Face's terms, quantised weights are decoded as they are read.
struct ModelTensors {
  Json config;
  TensorArchive archive;
  Json gguf_keys;                             // null but for a GGUF file
  std::vector<std::string> quirks, warnings;  // for the load report
};

// `config` is the config.json, or the GGUF file itself, `weights` what TensorArchive::open opens.
// Throws Error "bad_input".
ModelTensors open_model_tensors(const std::filesystem::path& config,
                                const std::filesystem::path& weights,
                                const OpenOptions& options = {});

}  // namespace phasescope::formats
