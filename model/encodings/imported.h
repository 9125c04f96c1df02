#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry imported_entry();

}  // namespace phasescope::model
