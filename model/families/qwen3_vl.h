#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// The text part of Qwen3-VL: Qwen 3 whose planes turn by time, height and width in turn (mRoPE).
Family qwen3_vl_family();

}  // namespace phasescope::model
