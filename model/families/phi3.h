#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Phi-3 and Phi-4-mini: a Llama with fused weights and longrope.
Family phi3_family();

}  // namespace phasescope::model
