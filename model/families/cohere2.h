#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Cohere 2 (Command R7B, A): one norm before both branches; layers with a window turn, the others
// do not.
Family cohere2_family();

}  // namespace phasescope::model
