#include "training/start/name_pattern.h"

#include <algorithm>
#include <cstddef>

#include "formats/error.h"

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

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return name_matches(pattern, name); });
}

void require_matches(const std::vector<std::string>& patterns,
                     const std::vector<std::string>& names, const std::string& what,
                     const std::string& key) {
  for (const std::string& pattern : patterns) {
    const bool found = std::ranges::any_of(
        names, [&](const std::string& name) { return name_matches(pattern, name); });
    if (found) continue;
    throw formats::bad_input("no " + what + " of the model is called \"" + pattern + "\"", key,
                             "phasescope info lists their names; * stands for any characters");
  }
}

}  // namespace phasescope::training
