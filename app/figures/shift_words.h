#pragma once
#include <string>

namespace phasescope::app {

// What an encoding declares of shifted ids (ShiftRow::expected) in words that can stand beside what
// was measured. "refused" is of ids past the end of a table: those before it were read.
std::string shift_words(const std::string& expected);

}  // namespace phasescope::app
