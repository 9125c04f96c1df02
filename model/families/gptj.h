#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// GPT-J: rope on the first channels, one norm in front of both branches.
Family gptj_family();

}  // namespace phasescope::model
