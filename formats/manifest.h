#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "formats/json.h"

// The manifest of a checkpoint that training wrote: "manifest.json" in its folder "step-N".

namespace phasescope::formats {

inline constexpr const char* kManifestName = "manifest.json";

// The N of "step-N"; nothing for another name.
std::optional<std::int64_t> step_of_checkpoint(const std::string& name);

struct FileDigest {
  std::uint64_t size = 0;
  std::string sha256;
};
// Digests a file; throws Error where it cannot be read.
using DigestOf = std::function<FileDigest(const std::filesystem::path& file)>;

// The manifest, after every file that it lists was found in the folder with its size and SHA-256.
// Throws Error "bad_input" naming the first that was not, and a field that the manifest lacks.
Json verified_manifest(const std::filesystem::path& folder, const Json& manifest,
                       const DigestOf& digest_of);

}  // namespace phasescope::formats
