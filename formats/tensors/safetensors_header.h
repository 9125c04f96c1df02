#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensors/safetensors.h"

namespace phasescope::formats {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxTensors = 1'000'000;

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // sorted by offset; offsets counted from the file's start
  std::map<std::string, std::string> metadata;
};

// Parses and checks a header's JSON. `data_begin` and `file_size` are the first byte after the
// header and the length of the file; `where` names the file. Throws Error "bad_input".
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_begin,
                                           std::uint64_t file_size, const std::string& where,
                                           const OpenOptions& options);

}  // namespace phasescope::formats
