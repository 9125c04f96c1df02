#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/json.h"
#include "formats/tensors/safetensors.h"
#include "golden.h"
#include "model/checkpoints/tensor_io.h"
#include "tests/model/open_error.h"

namespace phasescope::model {

// A copy of a case's files, some of them changed by a test.
inline void copy_case(const std::string& name, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(golden("hf/models/" + name))) {
    const std::filesystem::path file = to / entry.path().filename();
    std::filesystem::copy(entry.path(), file);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
}

inline NamedTensors tensors_of(const std::filesystem::path& folder) {
  const auto archive = formats::TensorArchive::open(folder);
  NamedTensors tensors;
  for (const formats::TensorEntry& entry : archive.tensors()) {
    tensors.emplace_back(entry.name, read_tensor(archive, entry));
  }
  return tensors;
}

// A copy with keys of its configuration changed; a null takes the key out.
inline void copy_changed(const std::string& name, const Json& changes,
                         const std::filesystem::path& to) {
  copy_case(name, to);
  Json config = formats::json_from_file(to / "config.json");
  config.merge_patch(changes);
  write_text(to / "config.json", config.dump());
}

}  // namespace phasescope::model
