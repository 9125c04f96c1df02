#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// BLOOM: alibi, a norm on the embeddings.
Family bloom_family();

}  // namespace phasescope::model
