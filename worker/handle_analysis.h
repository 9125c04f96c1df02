// Methods that measure: heads, maps, patterns, distance bias, shifts, theorem checks.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// Without an input and without a corpus, distance and theory read the bundled validation texts, the
// others the text of a first session. Tensors: of heads `thumbnails` and `js_divergence`, of map
// `map`, `row_profile` and `column_profile`, of patterns `pe_dot.L` and `pe_dot_heads.L`. shift
// without a length leaves room for the shifts in a learned table of positions.
std::vector<Handler> analysis_handlers();

}  // namespace phasescope::worker
