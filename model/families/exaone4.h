#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// EXAONE 4: norms of what attention and MLP give; layers with a window turn, the others do not.
Family exaone4_family();

}  // namespace phasescope::model
