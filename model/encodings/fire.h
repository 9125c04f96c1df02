#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry fire_entry();

}  // namespace phasescope::model
