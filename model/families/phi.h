#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Phi 1, 1.5 and 2: one LayerNorm before both branches, biases everywhere, half of the head turns.
Family phi_family();

}  // namespace phasescope::model
