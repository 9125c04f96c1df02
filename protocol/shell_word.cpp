#include "protocol/shell_word.h"

#include "formats/text_input.h"

namespace phasescope::protocol {

std::string shell_word(const std::string& word) {
  static constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  if (formats::first_invalid_utf8(word) < word.size()) {
    std::string octal;
    for (const unsigned char c : word) {
      for (const int shift : {6, 3, 0}) {
        octal += (shift == 6 ? "\\" : "") + std::to_string(c >> shift & 7);
      }
    }
    return "\"$(printf '" + octal + "')\"";
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace phasescope::protocol
