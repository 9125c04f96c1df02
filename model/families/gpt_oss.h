#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// gpt-oss: experts in every layer, sinks, windows in every second layer.
Family gpt_oss_family();

}  // namespace phasescope::model
