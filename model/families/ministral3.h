#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Ministral 3: a Llama with YaRN whose queries grow with the position. Alone or as the text part.
Family ministral3_family();

}  // namespace phasescope::model
