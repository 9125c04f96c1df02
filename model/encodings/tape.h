#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry tape_entry();

}  // namespace phasescope::model
