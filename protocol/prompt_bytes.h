#pragma once

namespace phasescope::protocol {

// The name of an Input whose bytes, which are no UTF-8, were given as a word of the command line.
inline constexpr const char* kNameOfPromptBytes = "--prompt";

}  // namespace phasescope::protocol
