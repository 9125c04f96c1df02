#pragma once

#include "model/checkpoints/conversions/conversion.h"

namespace phasescope::model {

// Random weights of a model's sizes, as weights_by_name draws them, never all in memory.
Conversion to_random_conversion();

}  // namespace phasescope::model
