#include "formats/manifest.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "formats/error.h"

namespace phasescope::formats {

std::optional<std::int64_t> step_of_checkpoint(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

Json verified_manifest(const std::filesystem::path& folder, const Json& manifest,
                       const DigestOf& digest_of) {
  try {
    for (const Json& file : manifest.at("files")) {
      // A name alone: no manifest reads files elsewhere.
      const std::filesystem::path name = file.at("name").get<std::string>();
      if (name.empty() || name != name.filename() || name == "." || name == "..") {
        throw bad_input("its manifest names \"" + name.string() + "\", which is no plain file name",
                        (folder / kManifestName).string());
      }
      std::error_code none;
      const auto kind = std::filesystem::status(folder / name, none).type();
      // A link to a device would be read for ever; of what is not there digest_of() tells.
      if (kind != std::filesystem::file_type::regular &&
          kind != std::filesystem::file_type::not_found) {
        throw bad_input(name.string() + " is no file", folder.string());
      }
      const FileDigest found = digest_of(folder / name);
      if (found.size != file.at("size").get<std::uint64_t>()) {
        throw bad_input(name.string() + " has another size than in the manifest", folder.string());
      }
      if (found.sha256 != file.at("sha256").get<std::string>()) {
        throw bad_input(name.string() + " has another SHA-256 than in the manifest",
                        folder.string());
      }
    }
    return manifest;
  } catch (const nlohmann::json::exception&) {
    throw bad_input("its manifest lacks a field", (folder / kManifestName).string());
  }
}

}  // namespace phasescope::formats
