#pragma once

#include <string>
#include <vector>

namespace phasescope::formats {

// "a, b, c".
std::string comma_list(const std::vector<std::string>& names);

// Those of `known` within a small edit distance of `name` (a third of its letters, at least one),
// or that contain it.
std::vector<std::string> names_near(const std::string& name, const std::vector<std::string>& known);

// "; near: a, b" for the names within a small edit distance of `name`, or "; known: ..." where none
// is near and there are at most twelve. Empty otherwise. For sentences about unknown keys.
std::string near_names(const std::string& name, const std::vector<std::string>& known);

// "near: a, b" for the names that are near one of `unknown`, or "known: ..." with all of them where
// none is. For hints.
std::string hint_of_names(const std::vector<std::string>& unknown,
                          const std::vector<std::string>& known);

}  // namespace phasescope::formats
