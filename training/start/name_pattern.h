#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace phasescope::training {

// Whether all of `name` is what `pattern` says, in which * stands for any characters, none too.
bool name_matches(std::string_view pattern, std::string_view name);
bool matches_any(const std::vector<std::string>& patterns, const std::string& name);

// Throws Error "bad_input" for a pattern that is of none of the names, those of a model's tensors
// or matrices (`what`).
void require_matches(const std::vector<std::string>& patterns,
                     const std::vector<std::string>& names, const std::string& what,
                     const std::string& key);

}  // namespace phasescope::training
