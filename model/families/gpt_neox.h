#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// GPT-NeoX and Pythia: rope on a part of the head, two branches side by side.
Family gpt_neox_family();

}  // namespace phasescope::model
