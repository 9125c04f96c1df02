#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry none_entry();

}  // namespace phasescope::model
