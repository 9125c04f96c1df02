#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Gemma 3, its text part: norms on q and k, local layers with a rope of their own.
Family gemma3_family();

}  // namespace phasescope::model
