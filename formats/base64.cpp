#include "formats/base64.h"

#include <cstdint>

#include "formats/error.h"

namespace phasescope::formats {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string decoded_base64(std::string_view text, const std::string& where) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t value = kLetters.find(text[at]);
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

std::string base64_of(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t n = 0; n < 3; ++n) {
      bits = bits << 8 | (at + n < bytes.size() ? static_cast<unsigned char>(bytes[at + n]) : 0);
    }
    for (int shift = 18; shift >= 0; shift -= 6) text += kLetters[bits >> shift & 63];
  }
  for (std::size_t n = 1; n <= (3 - bytes.size() % 3) % 3; ++n) text[text.size() - n] = '=';
  return text;
}

}  // namespace phasescope::formats
