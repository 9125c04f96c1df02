#pragma once
// What TAPA needs outside the inner loops: its table of powers, and the channel sums of the linear
// phase with their gradients.

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/diagonals.h"
#include "kernels/cpu/problem.h"

namespace phasescope::kernels {

/// power[|distance|] for every distance of the range; 0 past the table (masked pairs).
FloatBuffer padded_power(const TapaVariant& tapa, const DistanceRange& range);

template <typename T>
Tensor4<T> skip_channels(Tensor4<T> tensor, std::int64_t channels) {
  if (tensor.data) tensor.data += channels;
  return tensor;
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
