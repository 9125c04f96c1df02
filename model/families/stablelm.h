#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// StableLM 2: LayerNorms, rope on a quarter of the head.
Family stablelm_family();

}  // namespace phasescope::model
