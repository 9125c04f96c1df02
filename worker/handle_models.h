// Methods about one model: what it is, and what it does with a text.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// Common parameters: "model"; "input", "corpus", "length" as in request_input.h; "dtype", "set",
// "device" as ModelCache has them; "backend": "fused" | "plain"; "seed".
//
// models.list {}: ModelsResult, the bundled models.
// model.info {}: LoadReport.
// tokenize {"no_special"?}: {"ids", "decoded", "tokens"}; an input of ids is decoded.
// text.read {"guesses"? (5)}: TextResult.
// generate {"tokens"? (64), "temperature"? (0), "seed"?}: GenerateResult.
// capture {"what"?, "layers"?, "heads"?, "rows"?, "cols"?}: CaptureResult, the tensors by the names
//   of the command line; `position_ids` (N) of an "inputs" file is used.
// check {"reference", "tolerance"?}: ReferenceCheckResult.
// cost {"length"?}: CostResult; "model" may be the path of a configuration (.json) too.
std::vector<Handler> models_handlers();

}  // namespace phasescope::worker
