#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// The text part of Gemma 4: two head sizes, p-RoPE, shared keys, inputs of each layer, experts.
Family gemma4_family();

}  // namespace phasescope::model
