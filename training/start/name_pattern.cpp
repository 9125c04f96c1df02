#include "training/start/name_pattern.h"

#include <cstddef>

namespace phasescope::training {

bool name_matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  std::size_t star = pattern.npos, resumed = 0;  // the last *, and what of the name follows it
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, resumed = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != pattern.npos) {
      p = star + 1, n = ++resumed;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace phasescope::training
