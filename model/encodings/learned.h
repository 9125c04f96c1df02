#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry learned_entry();

}  // namespace phasescope::model
