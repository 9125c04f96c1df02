#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// OPT: learned positions from row 2 on, norms before or after the branches.
Family opt_family();

}  // namespace phasescope::model
