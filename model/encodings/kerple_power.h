#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry kerple_power_entry();

}  // namespace phasescope::model
