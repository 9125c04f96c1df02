#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// DeepSeek V3 and R1: V2 with a router of sigmoids and a stored bias for its choice.
Family deepseek_v3_family();

}  // namespace phasescope::model
