#include "formats/utf8.h"

#include "formats/text_input.h"
#include "formats/tokenizer.h"

namespace phasescope::formats {
namespace {

struct LeadByte {
  std::size_t length;
  char32_t bits;
  char32_t smallest;  // below it the form is overlong
};

LeadByte read_lead_byte(unsigned char byte) {
  if (byte < 0x80) return {1, byte, 0};
  if ((byte & 0xE0) == 0xC0) return {2, char32_t(byte & 0x1F), 0x80};
  if ((byte & 0xF0) == 0xE0) return {3, char32_t(byte & 0x0F), 0x800};
  if ((byte & 0xF8) == 0xF0) return {4, char32_t(byte & 0x07), 0x10000};
  return {0, 0, 0};
}

}  // namespace

Utf8Char utf8_char_at(std::string_view text, std::size_t at) {
  const LeadByte lead = read_lead_byte(static_cast<unsigned char>(text[at]));
  const Utf8Char broken;
  if (lead.length == 0 || at + lead.length > text.size()) return broken;
  char32_t code = lead.bits;
  for (std::size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0) != 0x80) return broken;
    code = (code << 6) | (byte & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < lead.smallest || code > 0x10FFFF || surrogate) return broken;
  return {code, lead.length, true};
}

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Char character = utf8_char_at(text, at);
    if (!character.valid) return at;
    at += character.length;
  }
  return text.size();
}

std::string shortened(std::string_view text, std::size_t max_bytes) {
  std::size_t end = 0;
  while (end < text.size() && end < max_bytes) end += utf8_char_at(text, end).length;
  std::string result;
  for (std::size_t at = 0; at < end;) {
    const std::size_t length = utf8_char_at(text, at).length;
    const std::string_view character = text.substr(at, length);
    result += character == " " ? " " : visible_text(character);
    at += length;
  }
  return end < text.size() ? result + "..." : result;
}

std::string in_quotes(std::string_view text) { return '"' + shortened(text) + '"'; }

}  // namespace phasescope::formats
