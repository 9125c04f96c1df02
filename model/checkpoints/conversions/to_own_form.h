#pragma once

#include "model/checkpoints/conversions/conversion.h"

namespace phasescope::model {

// The same model with our names and our config.json.
Conversion to_own_form_conversion();

}  // namespace phasescope::model
