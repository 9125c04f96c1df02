#pragma once
// Validation at the public entries; the kernels trust what passed it.

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Each throws std::invalid_argument with one sentence that names the field and the numbers.
void check_inputs(const AttentionInputs& inputs);
void check_forward(const AttentionInputs& inputs, const ForwardOutputs& outputs);
void check_backward(const AttentionInputs& inputs, const SavedForward& saved,
                    const Gradients& gradients);
void check_region(const AttentionInputs& inputs, const float* lse, const Region& region,
                  bool needs_lse);
void check_map(const Region& region, const MapOutputs& outputs);

}  // namespace phasescope::kernels
