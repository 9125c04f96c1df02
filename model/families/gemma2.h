#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Gemma 2: capped scores and logits, every second layer local.
Family gemma2_family();

}  // namespace phasescope::model
