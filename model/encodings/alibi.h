#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry alibi_entry();

}  // namespace phasescope::model
