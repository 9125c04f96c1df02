#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry shaw_entry();

}  // namespace phasescope::model
