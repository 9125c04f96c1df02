#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry pope_entry();

}  // namespace phasescope::model
