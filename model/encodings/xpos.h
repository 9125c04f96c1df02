#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry xpos_entry();

}  // namespace phasescope::model
