#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// OLMo 2: norms of what attention and MLP give, q and k normed over all heads at once.
Family olmo2_family();

// The names of norms that stand behind attention and MLP alone, for those that have them so.
TensorPlace output_norm_place(const std::string& name);

}  // namespace phasescope::model
