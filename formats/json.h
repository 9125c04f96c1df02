#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace phasescope::formats {

// Include <nlohmann/json.hpp> in the source file that looks inside one.
using Json = nlohmann::json;

enum class DuplicateKeys { keep_last, refuse };

struct JsonRules {
  int max_depth = 64;
  DuplicateKeys duplicate_keys = DuplicateKeys::keep_last;
};

// Parses one JSON document (UTF-8, nothing after it but white space). `where` names the text in
// errors, usually its file. Throws Error "bad_input" whose where() is "WHERE, byte N".
Json parse_json(std::string_view text, const std::string& where, JsonRules rules = {});

// Parses a file as parse_json() does; one above `max_bytes` is refused before it is read.
Json json_from_file(const std::filesystem::path& path, JsonRules rules = {},
                    std::uintmax_t max_bytes = std::uintmax_t{256} << 20);

}  // namespace phasescope::formats
