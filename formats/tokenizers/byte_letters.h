#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/tokenizers/aligned_text.h"

namespace phasescope::formats {

// GPT-2's alphabet for byte-level tokenizers: every byte as one visible character (a space is "Ġ").
// Source: GPT-2's encoder.py, bytes_to_unicode.
const std::string& byte_letter(unsigned char byte);  // UTF-8
AlignedText in_byte_letters(const AlignedText& text);
// The bytes that a token stands for; nothing where one of its characters is not in the alphabet.
std::optional<std::string> bytes_of_letters(std::string_view token);

}  // namespace phasescope::formats
