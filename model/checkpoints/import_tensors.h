#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/file_system.h"
#include "model/config.h"

// Attention computed by other programs as a model that opens like any other.

namespace phasescope::model {

struct ImportOptions {
  std::string as = "auto";      // maps, qk; auto: as the tensors are called
  std::string causal = "auto";  // yes, no; auto: of maps, whether any weight lies on a later key
  double scale = 0;             // of q.k, refused of maps; 0: 1 / sqrt(channels)
  bool renumber = false;        // layers that are there are counted from 0, if some are not there
};

struct Imported {
  ModelConfig config;
  std::vector<std::string> notes;
};

// Reads maps (N, N), (heads, N, N) or (layers, heads, N, N), or queries and keys (heads, N, d) or
// (layers, heads, N, d): .npy files, of which several are one layer each, or .safetensors with the
// names "attn", "q" and "k", alone or with the layer's number ("attn.3", as `capture` writes them).
// Layers of .npy files go by the number behind "layer", "block" or "L" in their names, or else by
// the one number in which the names differ; without one they go in the order given, which the notes
// say. A dimension of 1 before the heads is a text's. Writes FOLDER/model.safetensors (float32) and
// FOLDER/config.json. Throws Error "bad_input": names or shapes that do not fit, layers that are
// there twice or, but for `renumber`, not there at all, weights of a row that do not sum to 1,
// numbers that are none; "bad_usage": a scale of maps, a folder that holds another model than an
// imported one.
Imported import_tensors(formats::FileSystem& fs, const std::vector<std::filesystem::path>& files,
                        const std::filesystem::path& folder, const ImportOptions& options);

}  // namespace phasescope::model
