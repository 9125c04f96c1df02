#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// GLM 4: interleaved rope on half of the head, norms on both sides of attention and MLP.
Family glm4_family();

}  // namespace phasescope::model
