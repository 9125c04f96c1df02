#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry fox_entry();

}  // namespace phasescope::model
