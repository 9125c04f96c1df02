#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Write me: what these checkpoints are, and how they differ from their nearest relatives.
Family NEW_NAME_family();

}  // namespace phasescope::model
