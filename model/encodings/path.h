#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry path_entry();

}  // namespace phasescope::model
