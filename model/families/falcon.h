#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Falcon in its three forms: rw (alibi), 7B (one key head), 40B (grouped keys).
Family falcon_family();

}  // namespace phasescope::model
