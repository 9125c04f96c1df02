#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// T5, 1.0 and 1.1, as encoder-decoder or its encoder alone.
Family t5_family();

}  // namespace phasescope::model
