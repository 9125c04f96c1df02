#pragma once

#include <string>
#include <vector>

#include "model/config.h"

namespace phasescope::model {

// One sentence for everything in which a model departs from the plain one (RMS norms before
// attention and MLP, scores q.k / sqrt(d), an embedding and logits as they are), for the load
// report. Encodings speak for themselves.
std::vector<std::string> structure_quirks(const ModelConfig& config);

}  // namespace phasescope::model
