#pragma once

#include <string>
#include <vector>

namespace phasescope::model {

// "; near: a, b" for the names within a small edit distance of `name`, or "; known: ..." where none
// is near and there are at most twelve. Empty otherwise. For sentences about unknown keys.
std::string near_names(const std::string& name, const std::vector<std::string>& known);

}  // namespace phasescope::model
