#pragma once
#include <string>

namespace phasescope::protocol {

// A word of a command line as a POSIX shell reads it back: as it is, or in single quotes.
std::string shell_word(const std::string& word);

}  // namespace phasescope::protocol
