#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Checkpoints of TAPE's public code (VITA-Group/TAPE): a Llama with an `rpe_type`, or with TAPE's
// tensors where the configuration does not say so.
Family tape_public_family();

}  // namespace phasescope::model
