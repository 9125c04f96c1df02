#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Granite with windows, sinks and a rope base for each layer.
Family granite_swa_family();

}  // namespace phasescope::model
