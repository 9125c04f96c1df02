#pragma once
// What a launch of the backward pass is given, from what a caller gives.

#include <variant>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/backward_launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/problem_of.cuh"

namespace phasescope::kernels::cuda {

/// Whether the gradient of a table is asked for.
inline bool wants_table(const CudaAttention& a, const Gradients& gradients) {
  const auto* table = std::get_if<TableVariant>(&a.variant);
  const auto* to = std::get_if<TableGradients>(&gradients.variant);
  return table && table->length > 0 && to && to->values;
}

template <DeviceScore Score>
BackwardLaunch<Score> backward_launch_of(const CudaAttention& a, const SavedForward& saved,
                                         const CudaGradients& gradients, const Score& score) {
  auto* delta = static_cast<float*>(gradients.workspace);
  float* diagonals = delta + delta_size(a.shape);
  float* factors = diagonals + diagonals_size(a.shape);
  auto* pieces = reinterpret_cast<float2*>(factors + delta_size(a.shape));
  return {problem_of(a, score),
          device_saved(saved, gradients),
          device_gradients(gradients),
          delta,
          diagonals,
          factors,
          pieces,
          gradients.tokens,
          own_gradients(gradients),
          delta + delta_size(a.shape)};
}
/// The same for the pass in one kernel, which sums a table's gradient on its way or leaves it.
template <DeviceScore Score>
BackwardLaunch<Score> for_one_pass(const CudaAttention& a, const CudaGradients& gradients,
                                   BackwardLaunch<Score> pass) {
  if (!wants_table(a, gradients)) pass.distances = nullptr;
  return pass;
}

}  // namespace phasescope::kernels::cuda
