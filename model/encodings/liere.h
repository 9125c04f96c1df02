#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry liere_entry();

}  // namespace phasescope::model
