#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// MPT: alibi with slopes in its own order, no biases.
Family mpt_family();

}  // namespace phasescope::model
