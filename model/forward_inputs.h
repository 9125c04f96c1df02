#pragma once

#include <string>

#include "formats/tensors/safetensors.h"
#include "model/decoder.h"

namespace phasescope::model {

// Reads what a forward pass takes beside the ids from a file: attention_mask, document_ids,
// token_type_ids, position_ids, grid_positions, positions.0 and so on (what each layer draws),
// decoder_input_ids, each where it is there, with `prefix` ("long.") in front. Rows and columns
// past those of `ids` (B, N), which may have been cut, are left out. An attention mask is one
// number a token, 0 for padding, or (B, N, N) or (B, 1, N, N), what each query sees, in place of
// the model's own mask; where it hides nothing it is left out, so that the fused form stays
// possible; it must be the same for all texts. Document ids, one a token, leave a query the keys of
// its own document. Throws Error "bad_input" for what does not fit.
void read_forward_inputs(const formats::SafetensorsFile& file, const std::string& prefix,
                         const at::Tensor& ids, const ModelConfig& config, ForwardOptions& options);

// Puts position ids in the place of grid_positions, where those are given: row * columns + column.
// Throws Error "bad_input" for an encoding that has no columns, and for cells outside its grid.
void place_cells(const Encoding& encoding, ForwardOptions& options);

}  // namespace phasescope::model
