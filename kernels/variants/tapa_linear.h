#pragma once
// What TAPA needs outside the inner loops: its table of powers, and the channel sums of the linear
// phase with their gradients.

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/problem.h"
#include "kernels/cpu/storage.h"

namespace phasescope::kernels {

/// power[|distance|] for every distance of the range; 0 past the table (masked pairs).
FloatBuffer padded_power(const TapaVariant& tapa, const DistanceRange& range);

template <typename Void>
Tensor4<Void> skip_channels(const Tensor4<Void>& tensor, std::int64_t channels) {
  return tensor.data ? skip_numbers(tensor, channels) : tensor;
}

/// q' = (sum qP, 1) and k' = (1, sum kP), each with 2 channels, and the gradients that go back to
/// every channel of qP and kP.
class TapaLinearPhase {
 public:
  explicit TapaLinearPhase(const AttentionInputs& inputs);

  DotStream dot() const;
  void begin_gradients();
  OutputTensor dq() const;
  OutputTensor dk() const;
  void finish_gradients(const Gradients& gradients) const;

 private:
  const AttentionInputs& inputs_;
  const TapaVariant& tapa_;
  FloatBuffer q_, k_;
  mutable FloatBuffer dq_, dk_;
};

}  // namespace phasescope::kernels
