#pragma once
// Gates of a row's output.

#include "kernels/attention.h"
#include "kernels/cpu/storage.h"

namespace phasescope::kernels {

/// values (dim), of a row of the output or of the gradient that comes in for it, times its gate.
[[gnu::always_inline]] inline void times_gate(const AttentionInputs& inputs, std::int64_t batch,
                                              std::int64_t head, std::int64_t row, std::int64_t dim,
                                              float* values) {
  float gate[kMaxChannels];
  const std::int64_t count = inputs.gate_dim;
  read_numbers(inputs.gate.storage, row_pointer(inputs.gate, batch, head, row), count, gate);
  for (std::int64_t d = 0; d < dim; ++d) values[d] *= gate[count == 1 ? 0 : d];
}

/// Gradients::gate: of each row d_out times what the gate multiplied.
void backward_gate(const AttentionInputs& inputs, const SavedForward& saved,
                   const Gradients& gradients);

}  // namespace phasescope::kernels
