#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry NEW_NAME_entry();

}  // namespace phasescope::model
