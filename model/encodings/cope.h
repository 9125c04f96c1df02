#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry cope_entry();

}  // namespace phasescope::model
