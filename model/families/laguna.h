#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Laguna: query heads that differ by layer, gated outputs, two ropes, experts beside a shared one.
Family laguna_family();

}  // namespace phasescope::model
