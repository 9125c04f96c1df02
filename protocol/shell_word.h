#pragma once
#include <string>

namespace phasescope::protocol {

// A word of a command line as a POSIX shell reads it back: as it is, or in single quotes; one that
// is no UTF-8, which no line of JSON could hold, as what printf makes of its bytes (but for line
// ends at its end).
std::string shell_word(const std::string& word);

}  // namespace phasescope::protocol
