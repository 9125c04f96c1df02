#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry relative_logits_entry();

}  // namespace phasescope::model
