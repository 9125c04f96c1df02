#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry t5_entry();

}  // namespace phasescope::model
