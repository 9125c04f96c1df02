#pragma once
// NEW_NAME: write me: the statement, its paper and equation.
#include "analysis/theory/check.h"

namespace phasescope::analysis {

TheoryCheck NEW_NAME();

}  // namespace phasescope::analysis
