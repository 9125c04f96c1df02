#include "kernels/cpu/sinks.h"

#include <cmath>
#include <limits>
#include <variant>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/gates.h"
#include "kernels/cpu/problem.h"
#include "kernels/cpu/storage.h"

namespace phasescope::kernels {
namespace {

/// a . b of one row of a head, b times the row's gate where `gated` has one; 0 where b is nothing.
double dot_of_rows(const InputTensor& a, const InputTensor& b, std::int64_t dim, std::int64_t batch,
                   std::int64_t head, std::int64_t row, const AttentionInputs* gated = nullptr) {
  if (!b.data) return 0;
  float x[kMaxChannels], y[kMaxChannels];
  read_numbers(a.storage, row_pointer(a, batch, head, row), dim, x);
  read_numbers(b.storage, row_pointer(b, batch, head, row), dim, y);
  if (gated && gated->gate.data) times_gate(*gated, batch, head, row, dim, y);
  double sum = 0;
  for (std::int64_t d = 0; d < dim; ++d) {
    sum += static_cast<double>(x[d]) * static_cast<double>(y[d]);
  }
  return sum;
}

}  // namespace

void backward_sinks(const AttentionInputs& inputs, const SavedForward& saved,
                    const Gradients& gradients) {
  const AttentionShape& s = inputs.shape;
  const auto* tape = std::get_if<TapeVariant>(&inputs.variant);
  const auto* tape_gradients = std::get_if<TapeGradients>(&gradients.variant);
  parallel_items(s.heads, [&](std::int64_t head, int) {
    double sum = 0;
    for (std::int64_t n = 0; n < s.batch * s.queries; ++n) {
      const std::int64_t batch = n / s.queries, row = n % s.queries;
      const float lse = saved.lse[(batch * s.heads + head) * s.queries + row];
      if (lse == -std::numeric_limits<float>::infinity()) continue;
      double delta = dot_of_rows(saved.out, saved.d_out, value_dim(s), batch, head, row, &inputs);
      if (tape && tape_gradients) {
        delta += dot_of_rows(saved.out_state, tape_gradients->d_out_state, tape->state_dim, batch,
                             head, row);
      }
      // The sink's weight is the share of lse in its sum with the sink, the other way round.
      sum -= share_beside_sink(inputs.sinks[head], lse) * delta;
    }
    gradients.sinks[head] = static_cast<float>(sum);
  });
}

}  // namespace phasescope::kernels
