#pragma once
// docs/theory.md: every registered check, as tables.
#include <string>

namespace phasescope::analysis {

std::string page_of_checks();

}  // namespace phasescope::analysis
