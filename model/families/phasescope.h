#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Our own checkpoints: canonical names, "model_type": "phasescope".
Family phasescope_family();

}  // namespace phasescope::model
