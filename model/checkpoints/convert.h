#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/file_system.h"

namespace phasescope::model {

struct ConvertOptions {
  // `--set` pairs, made before the conversion: see set_field in config.h.
  std::vector<std::pair<std::string, std::string>> overrides;
  // Tensors are stored in this dtype; where empty in the one they had, and those that the
  // conversion computes in float64, so that no rounding is added.
  std::optional<at::ScalarType> dtype;
  std::uint64_t seed = 0;  // of the form "random"; Error "bad_usage" where another one is given it
  std::function<void(double)> progress;  // 0..1
  std::function<bool()> cancelled;
};

struct Converted {
  std::string model;               // the report's name of what was read
  std::string sha256;              // of its weights
  std::vector<std::string> files;  // names in the folder
  std::vector<std::string> notes;
  std::int64_t tensors = 0, parameters_before = 0, parameters = 0;
  std::uint64_t bytes = 0;  // of the weights file
};

// What `to` may be, with a sentence each.
struct ConversionForm {
  std::string key, help;
};
std::vector<ConversionForm> conversion_forms();

// Writes what open_model opens (for the form "random" what config_without_weights takes) into the
// folder `out` in another form: model.safetensors, config.json, and its tokenizer's files. Tensors
// go through memory one at a time. `out` must be empty or not be there; what was written is removed
// where it ends in an error. Throws Error "bad_usage" for a form that is none and a folder with
// files, "bad_input" where the model cannot be put into that form.
Converted convert_model(formats::FileSystem& fs, const std::string& path_or_name,
                        const std::string& to, const std::filesystem::path& out,
                        const ConvertOptions& options = {});

}  // namespace phasescope::model
