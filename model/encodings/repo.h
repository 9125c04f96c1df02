#pragma once

#include "model/encoding.h"

namespace phasescope::model {

EncodingEntry repo_entry();

}  // namespace phasescope::model
