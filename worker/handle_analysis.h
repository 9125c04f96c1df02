// Methods that measure: heads, maps, patterns, distance bias, shifts, theorem checks, comparisons.
#pragma once

#include <vector>

#include "worker/handlers.h"

namespace phasescope::worker {

// Common parameters as in handle_models.h; "models" is a list of names where a method takes
// several. Without an input and without "corpus": true, `distance` and `theory` read the bundled
// validation texts, the others the text of a first session.
//
// heads {"metrics"?, "thumbnails"? (true or their side), "period"?, "stack"? (of an
//   encoder-decoder: "dec", "enc", "cross")}: HeadsResult; tensors `thumbnails`, `js_divergence`.
// map {"head": "L3H5" | "L3" | "enc.L3H5", "rows"?, "cols"?, "size"? ([h, w]), "of"?, "pool"?}:
//   MapResult; tensors `map`, `row_profile`, `column_profile`.
// patterns {"positions"? (128), "layers"?, "query"?}: PatternsResult; tensors `pe_dot.L`,
//   `pe_dot_heads.L`.
// distance {"models", "near"?, "far"?, "pairs"? (10000), "per_head"?, "leave_out_first"? (true
// where
//   texts start with [BOS])}: DistanceResult.
// shift {"models", "by"?, "method"?, "dtypes"? (f32, f64)}: ShiftResult. Without "length" a text
//   leaves room for the shifts in a learned table of positions.
// theory {"models", "check"?, "pairs"?}: TheoryResult. theory.list {}: {"checks": [CheckInfo]}.
// compare {"a", "b"} or {"models": [a, b]}: CompareResult; of two causal models, or of two that see
//   both ways.
std::vector<Handler> analysis_handlers();

}  // namespace phasescope::worker
