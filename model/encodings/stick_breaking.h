#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry stick_breaking_entry();

}  // namespace phasescope::model
