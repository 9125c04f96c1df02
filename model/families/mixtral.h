#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Mixtral: a Mistral whose MLPs are experts.
Family mixtral_family();

}  // namespace phasescope::model
