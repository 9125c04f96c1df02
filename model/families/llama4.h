#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// The text part of Llama 4: layers that turn see their own chunk, the others all with warmer
// queries.
Family llama4_family();

}  // namespace phasescope::model
