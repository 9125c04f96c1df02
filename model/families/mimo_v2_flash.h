#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// MiMo V2 Flash: windows with sinks and twice the keys in most layers, two ropes, experts.
Family mimo_v2_flash_family();

}  // namespace phasescope::model
