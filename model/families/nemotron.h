#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Nemotron 4 and Minitron: LayerNorms of 1 + w, a squared ReLU without a gate, half of the head
// turns.
Family nemotron_family();

}  // namespace phasescope::model
