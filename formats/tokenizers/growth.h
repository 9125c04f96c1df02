#pragma once

#include <cstddef>
#include <string>

#include "formats/error.h"

namespace phasescope::formats {

// Ends what a file's rules do to a text where it has grown out of proportion: thirty rules that
// write two letters for one make a gigabyte of a byte. Unicode's own forms take up to eleven times
// the bytes.
inline void check_growth(std::size_t now, std::size_t given, const std::string& where) {
  constexpr std::size_t kTimes = 16, kAnyway = std::size_t{1} << 16;
  if (now <= kTimes * given + kAnyway) return;
  throw bad_input("the tokenizer's rules make the text more than 16 times longer", where);
}

}  // namespace phasescope::formats
