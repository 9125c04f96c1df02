#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/config.h"

namespace phasescope::model {

// set_field() for every `--set` pair in order. Throws Error "bad_usage" or "bad_input" that tells
// of all pairs that cannot be set.
void set_fields(ModelConfig& config,
                const std::vector<std::pair<std::string, std::string>>& settings);

}  // namespace phasescope::model
