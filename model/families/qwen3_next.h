#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Qwen3-Next: most layers a gated delta rule, the others attention with gated outputs; experts.
Family qwen3_next_family();

class FamilyReader;
// What Qwen3-Next and Qwen3.5 share: gated attention, linear layers, norms of 1 + w.
void read_gated_attention(FamilyReader& reading);
TensorPlace gated_attention_place(const ModelConfig& config, const std::string& name);

}  // namespace phasescope::model
