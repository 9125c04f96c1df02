#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry kerple_log_entry();

}  // namespace phasescope::model
