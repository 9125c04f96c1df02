#pragma once
// The letter that stands for a blank in vocabularies made by SentencePiece, and in those that
// follow it.
#include <string>
#include <string_view>

namespace phasescope::formats {

inline constexpr std::string_view kSpaceMark = "\u2581";

// A token as text: with blanks for the marks.
inline std::string with_spaces(std::string text) {
  for (std::size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos; ++at) {
    text.replace(at, kSpaceMark.size(), " ");
  }
  return text;
}

}  // namespace phasescope::formats
