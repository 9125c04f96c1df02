// Methods about one model: what it is, and what it does with a text.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// Common parameters: "model", "dtype", "set", "device" as ModelCache has them; "input", "corpus",
// "length" as in request_input.h; "backend": "fused" | "plain" | "cuda-unverified"; "seed".
//
// models.list {}: ModelsResult, the bundled models.
// model.info {"length"? (the trained context)}: LoadReport; of a model that cannot be run for the
//   types of its tensors too.
// tokenize {"no_special"?}: {"ids", "decoded", "tokens"}; an input of ids is decoded, and several
//   lists give one of these each, in "items".
// text.read {"guesses"? (5)}: TextResult.
// generate {"tokens"? (64), "temperature"? (0), "seed"?}: GenerateResult; no text without a
//   tokenizer.
// capture {"what"?, "layers"?, "heads"?, "rows"?, "cols"?}: CaptureResult, the tensors by the names
//   of the command line. Of an "inputs" file the masks and positions are passed on as they are,
//   where other methods leave padding out. With "input_ids" in "what" it is a reference for check.
// check {"reference", "tolerance"?}: ReferenceCheckResult.
// convert {"to", "out", "dtype"?}: ConvertResult. convert.list {}: {"forms": [{"key", "help"}]}.
// cost {"length"?}: CostResult, no weights read; "model" may be a configuration alone (.json) too.
std::vector<Handler> models_handlers();

}  // namespace phasescope::worker
