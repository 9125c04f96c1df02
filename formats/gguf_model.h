#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/tensors/gguf.h"

namespace phasescope::formats {

// A model of a GGUF file as a Hugging Face checkpoint: what its keys mean as a config.json, and its
// tensors under their Hugging Face names, rows in their order there.
struct GgufModel {
  Json config;
  Json keys;  // of the file: its tokenizer's among them
  std::unique_ptr<TensorFile> tensors;
  std::vector<std::string> quirks;    // for the load report
  std::vector<std::string> warnings;  // keys that were not followed
};

// Throws Error "bad_input": a file that cannot be read, a general.architecture that is not known
// (those that are, are listed), keys that are missing or cannot be carried out exactly.
GgufModel open_gguf_model(const std::filesystem::path& path, const OpenOptions& options = {});

}  // namespace phasescope::formats
