#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry fope_entry();

}  // namespace phasescope::model
