#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// StarCoder 2: LayerNorms, biases everywhere, a plain MLP, a window in all layers.
Family starcoder2_family();

}  // namespace phasescope::model
