#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// The text part of Qwen3.5: as Qwen3-Next with mRoPE, dense or of experts.
Family qwen3_5_family();

}  // namespace phasescope::model
