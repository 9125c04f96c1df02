// Methods about one model: what it is, and what it does with a text.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// model.info tells of a model that cannot be run for the types of its tensors too. tokenize decodes
// an input of ids; several lists give "items". generate gives no text without a tokenizer. capture
// passes masks and positions of an inputs file on as they are, where other methods leave padding
// out; with "input_ids" in "what" it is a reference for check. cost reads no weights.
std::vector<Handler> models_handlers();

}  // namespace phasescope::worker
