#pragma once

#include <string_view>

namespace phasescope::training {

// Whether all of `name` is what `pattern` says, in which * stands for any characters, none too.
bool name_matches(std::string_view pattern, std::string_view name);

}  // namespace phasescope::training
