#pragma once

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Gradients::sinks: minus the sum over batch and queries of the sink's weight times d_out . out.
void backward_sinks(const AttentionInputs& inputs, const SavedForward& saved,
                    const Gradients& gradients);

}  // namespace phasescope::kernels
