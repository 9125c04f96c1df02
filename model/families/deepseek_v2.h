#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// DeepSeek V2: latent attention (MLA), experts beside a shared one.
Family deepseek_v2_family();

class FamilyReader;
// What V2 and V3 share: sizes, latent attention with its rope, experts but for their router.
void read_deepseek(FamilyReader& reading, const char* layout);
TensorPlace deepseek_place(const ModelConfig& config, const std::string& name);

}  // namespace phasescope::model
