#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Mistral: a Llama whose queries see a window.
Family mistral_family();

}  // namespace phasescope::model
