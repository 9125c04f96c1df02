#pragma once

#include <cstdint>

#include "model/families/family.h"

namespace phasescope::model {

// DeepSeek V2: latent attention (MLA), experts beside a shared one.
Family deepseek_v2_family();

class FamilyReader;
// What the class has where a file leaves it out.
struct DeepseekDefaults {
  std::int64_t context, experts, shared_experts, expert_width, dense_layers;
  std::int64_t per_token;  // 0: the class has none, and a file must say it
  double routed_scale;
};
// What V2 and V3 share: sizes, latent attention with its rope, experts but for their router.
void read_deepseek(FamilyReader& reading, const char* layout, const DeepseekDefaults& defaults);
// A problem where the file has another word than the one that the class computes by.
void require_word(FamilyReader& reading, const char* key, const char* own);
TensorPlace deepseek_place(const ModelConfig& config, const std::string& name);

}  // namespace phasescope::model
