#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// The text part of Qwen2-VL: Qwen 2 whose planes turn by time, height or width (mRoPE).
Family qwen2_vl_family();

}  // namespace phasescope::model
