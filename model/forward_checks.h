#pragma once
// Whether what is given to a forward pass fits its ids.
#include "model/decoder.h"

namespace phasescope::model {

// Position ids (N) or (B, N), where there are any, of ids (B, N). Throws Error "bad_input" that
// calls them `name`.
void check_position_ids(const at::Tensor& positions, const at::Tensor& ids, const char* name);

// All that stands beside the ids of a stack. Throws Error "bad_input" that names the first that
// does not fit.
void check_options(const ForwardOptions& options, const ModelConfig& config, const at::Tensor& ids);

}  // namespace phasescope::model
