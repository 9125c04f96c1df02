#pragma once

#include "model/families/family.h"

namespace phasescope::model {

// Qwen 3 whose MLPs are experts.
Family qwen3_moe_family();

class FamilyReader;
// Experts of Qwen's files: softmax over all of them, sizes and layers by their keys; and the names,
// of one tensor for each expert or for all.
void read_qwen_experts(FamilyReader& reading, std::int64_t count, std::int64_t per_token,
                       std::int64_t width, bool normalised);
TensorPlace qwen_experts_place(const ModelConfig& config, const std::string& name);

}  // namespace phasescope::model
