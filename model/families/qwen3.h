#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Qwen 3: a Llama with a norm on each head of q and k.
Family qwen3_family();

}  // namespace phasescope::model
