#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry randomized_rope_entry();

}  // namespace phasescope::model
