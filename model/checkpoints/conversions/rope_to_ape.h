#pragma once

#include "model/checkpoints/conversions/conversion.h"

namespace phasescope::model {

// RoPE to APE on sequences (arXiv 2312.16045): W is RoPE's rotation by one token, its generator
// that matrix's logarithm, which for a rotation of planes is the angles themselves.
Conversion rope_to_ape_conversion();

}  // namespace phasescope::model
