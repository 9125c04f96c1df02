#pragma once

#include "protocol/messages/formula.h"

namespace phasescope::analysis {

// What the encoding `formula` makes of an expression for heads of these sizes, and with `check`
// whether the ways in which it can run agree. Throws formats::Error "bad_input" with the column of
// what is wrong.
protocol::FormulaResult analyse_formula(const protocol::FormulaRequest& request);

}  // namespace phasescope::analysis
