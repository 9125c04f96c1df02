#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Encoders of APE's public code (konstantinosKokos/ape): its tensors beside a config.json in our
// own form, since the code writes none, with the sizes and an encoding ape_sequence, ape_grid or
// ape_tree.
Family ape_public_family();

}  // namespace phasescope::model
