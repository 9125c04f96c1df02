#include "kernels/cpu/gates.h"

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/problem.h"

namespace phasescope::kernels {

void backward_gate(const AttentionInputs& inputs, const SavedForward& saved,
                   const Gradients& gradients) {
  const AttentionShape& s = inputs.shape;
  const std::int64_t dim = value_dim(s), count = inputs.gate_dim;
  parallel_items(s.batch * s.heads, [&](std::int64_t item, int) {
    const std::int64_t batch = item / s.heads, head = item % s.heads;
    float out[kMaxChannels], d_out[kMaxChannels];
    for (std::int64_t row = 0; row < s.queries; ++row) {
      const auto read = [&](const InputTensor& tensor, float* to) {
        read_numbers(tensor.storage, row_pointer(tensor, batch, head, row), dim, to);
      };
      read(saved.out, out), read(saved.d_out, d_out);
      double sum = 0;
      for (std::int64_t d = 0; d < dim; ++d) {
        out[d] *= d_out[d];
        sum += static_cast<double>(out[d]);
      }
      if (count == 1) out[0] = static_cast<float>(sum);
      write_numbers(gradients.gate.storage, out, count,
                    row_pointer(gradients.gate, batch, head, row));
    }
  });
}

}  // namespace phasescope::kernels
