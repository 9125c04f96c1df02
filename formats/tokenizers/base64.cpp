#include "formats/tokenizers/base64.h"

#include <cstdint>

#include "formats/error.h"

namespace phasescope::formats {

std::string decoded_base64(std::string_view text, const std::string& where) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t value = letters.find(text[at]);
    if (value == std::string_view::npos) {
      throw bad_input("byte " + std::to_string(at) + " of the text is not base64", where);
    }
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return bytes;
}

}  // namespace phasescope::formats
