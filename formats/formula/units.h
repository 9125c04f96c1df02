#pragma once

#include "formats/formula/formula.h"

namespace phasescope::formula {

// Writes beside each parameter the unit that makes the formula whole: lam, i, j and length are
// tokens, arguments of cos and sin radians, the score, q and k pure numbers. What cannot be is left
// as it is: units are told, not enforced.
void find_units(Formula& formula);

// A warning for each logarithm of 0 and each division by 0 where lam is 0.
void warn_of_zeros(Formula& formula);

// A warning for each parameter that the score does not read.
void warn_of_idle_parameters(Formula& formula);

}  // namespace phasescope::formula
