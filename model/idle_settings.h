#pragma once

#include <string>
#include <vector>

#include "model/config.h"

namespace phasescope::model {

// One sentence for each setting that differs from its default and changes nothing in this model: a
// window without local layers, a scaling without a factor. For the load report. The configuration
// must be one that can be used.
std::vector<std::string> idle_settings(const ModelConfig& config);

}  // namespace phasescope::model
