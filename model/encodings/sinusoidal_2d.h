#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry sinusoidal_2d_entry();

}  // namespace phasescope::model
