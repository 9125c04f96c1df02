#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry transformer_xl_entry();

}  // namespace phasescope::model
