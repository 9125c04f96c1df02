#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// OLMo 3: OLMo 2 with windows in most layers, which have a rope of their own.
Family olmo3_family();

}  // namespace phasescope::model
