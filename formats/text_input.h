#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace phasescope::formats {

// A text file as bytes, "-" being standard input. Throws Error "bad_input" that says whether it is
// missing, a folder, not readable, empty or above `max_bytes`.
std::string read_text_file(const std::filesystem::path& path,
                           std::uintmax_t max_bytes = std::uintmax_t{1} << 30);

struct NamedText {
  std::string name;
  std::string text;
};

// A .jsonl file of {"name": ..., "text": ...} lines, as the bundled validation texts are. Errors
// name the line.
std::vector<NamedText> read_text_collection(const std::filesystem::path& path);

// The byte offset of the first byte that is not valid UTF-8; text.size() where all is.
std::size_t first_invalid_utf8(std::string_view text);

}  // namespace phasescope::formats
