#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry rope_nope_entry();

}  // namespace phasescope::model
