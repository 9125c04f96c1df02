#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Inkling (text part): no rotation, relative logits from content, short convolutions, experts that
// every token has beside those it is given to.
Family inkling_family();

}  // namespace phasescope::model
