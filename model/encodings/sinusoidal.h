#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry sinusoidal_entry();

}  // namespace phasescope::model
