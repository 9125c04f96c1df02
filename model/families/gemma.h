#pragma once

#include "model/families/family.h"
#include "model/families/family_reader.h"
#include "model/families/llama.h"

namespace phasescope::model {

// Gemma: a Llama with norms of 1 + w and scaled embeddings.
Family gemma_family();

// What all Gemmas share.
void read_gemma(FamilyReader& reading, const LlamaDefaults& defaults);
// What Gemma 2 and 3 share: scale, caps, norms on both sides of a branch.
void read_gemma2(FamilyReader& reading, double score_cap, double logit_cap);
TensorPlace gemma2_place(const std::string& name);

}  // namespace phasescope::model
