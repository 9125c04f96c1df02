#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry tapa_entry();

}  // namespace phasescope::model
