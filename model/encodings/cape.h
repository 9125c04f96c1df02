#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry cape_entry();

}  // namespace phasescope::model
