#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Granite 3: a Llama with multipliers of embeddings, scores, branches and logits.
Family granite_family();

class FamilyReader;
// The multipliers.
void read_granite(FamilyReader& reading);

}  // namespace phasescope::model
