#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace phasescope::formats {

struct Utf8Char {
  char32_t code = 0;
  std::size_t length = 1;  // bytes; 1 for a byte that begins no valid character
  bool valid = false;
};

// The character that begins at text[at]; at < text.size(). Overlong forms, surrogates and values
// above U+10FFFF are not valid.
Utf8Char utf8_char_at(std::string_view text, std::size_t at);

// For messages: at most about `max_bytes` of the text, control bytes and broken UTF-8 made visible.
std::string shortened(std::string_view text, std::size_t max_bytes = 80);
// The text as shortened() has it, in double quotes.
std::string in_quotes(std::string_view text);

}  // namespace phasescope::formats
