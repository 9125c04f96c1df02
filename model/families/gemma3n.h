#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Gemma 3n's text part: four residual streams (AltUp), a low-rank branch beside attention (LAuReL),
// sparse gates, inputs of the layers' own, shared keys and values.
Family gemma3n_family();

}  // namespace phasescope::model
