#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// GPT-2: learned positions, LayerNorm, matrices stored (in, out).
Family gpt2_family();

}  // namespace phasescope::model
