#pragma once

#include "model/checkpoints/conversions/conversion.h"

namespace phasescope::model {

// RoPE to TAPE at zero cost (arXiv 2501.00712, Section 3.3): W1 and the post-attention linear are
// zero, so that the state stays RoPE's rotation and the logits stay what they are.
Conversion rope_to_tape_conversion();

}  // namespace phasescope::model
