#pragma once
// Bounds that several readers hold to alike.
#include <cstdint>
#include <string>

#include "formats/error.h"

namespace phasescope::formats {

// Beyond any text; what is counted in bytes and multiply-accumulates of one stays within an int64.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

// Ids of a vocabulary are in [0, kMaxVocabulary).
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;

// Throws Error "bad_usage" unless `length` is one of a text.
inline void require_length(std::int64_t length) {
  if (length >= 1 && length <= kMostTokens) return;
  throw bad_usage("a length must be from 1 to " + std::to_string(kMostTokens) + " tokens, not " +
                      std::to_string(length),
                  "length");
}

}  // namespace phasescope::formats
