#include "formats/tokenizers/byte_letters.h"

#include <array>

#include "formats/tokenizers/unicode.h"
#include "formats/utf8.h"

namespace phasescope::formats {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> letters;
  std::array<int, 0x144> bytes;  // by code point; -1 for none

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t code = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
      append_utf8(letters[static_cast<std::size_t>(byte)], code);
      bytes[code] = byte;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

const std::string& byte_letter(unsigned char byte) { return alphabet().letters[byte]; }

AlignedText in_byte_letters(const AlignedText& text) {
  AlignedText made = AlignedText::like(text);
  for (std::size_t at = 0; at < text.size(); ++at) {
    made.put(byte_letter(static_cast<unsigned char>(text.text()[at])), text, at, at + 1);
  }
  return made;
}

std::optional<std::string> bytes_of_letters(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Char letter = utf8_char_at(token, at);
    const auto& known = alphabet().bytes;
    if (!letter.valid || letter.code >= known.size() || known[letter.code] < 0) return std::nullopt;
    bytes += static_cast<char>(known[letter.code]);
    at += letter.length;
  }
  return bytes;
}

}  // namespace phasescope::formats
