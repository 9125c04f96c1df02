#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry selective_rope_entry();

}  // namespace phasescope::model
