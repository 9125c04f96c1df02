#pragma once

#include <cstdint>

#include "model/families/family.h"
#include "model/families/family_reader.h"

namespace phasescope::model {

// Qwen 2 and 2.5: a Llama whose q, k and v always have biases.
Family qwen2_family();

// Qwen's windows: only with use_sliding_window, by layer_types or from layer max_window_layers on,
// which is `first` where the file has none.
void read_qwen_windows(FamilyReader& reading, std::int64_t first = 28);

}  // namespace phasescope::model
