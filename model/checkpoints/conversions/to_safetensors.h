#pragma once

#include "model/checkpoints/conversions/conversion.h"

namespace phasescope::model {

// The same tensors, names, bytes and config.json in one safetensors file.
Conversion to_safetensors_conversion();

}  // namespace phasescope::model
