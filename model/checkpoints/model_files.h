#pragma once

#include <filesystem>
#include <string>
#include <vector>

// Where a model's files are: what the user named, resolved to a configuration and weights.

namespace phasescope::model {

struct ModelFiles {
  std::filesystem::path config;   // config.json, or the GGUF file
  std::filesystem::path weights;  // a .safetensors file, an index, a folder with either; or GGUF
  bool bundled = false;
  std::filesystem::path adapter = {};   // folder of a LoRA adapter to merge; empty for none
  std::vector<std::string> notes = {};  // checkpoints that were skipped, and why
};

// Throws Error "bad_input" that says what was looked for.
ModelFiles find_model_files(const std::string& path_or_name);

std::filesystem::path models_folder();

}  // namespace phasescope::model
