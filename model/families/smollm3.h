#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// SmolLM 3: a Llama some of whose layers turn nothing (NoPE).
Family smollm3_family();

}  // namespace phasescope::model
