#pragma once
// From run-time values to the instantiations of a score's backward pass in Hopper form.

#include "kernels/cuda/backward_hopper.cuh"
#include "kernels/cuda/backward_problem.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

/// dq, dk, dv and a table's sums, once delta is there. Throws CudaError where the driver refuses a
/// tensor.
template <DeviceScore Score>
void backward_in_hopper_form(const CudaAttention& a, const SavedForward& saved,
                             const CudaGradients& gradients, const Score& score) {
  const AttentionShape& s = a.shape;
  const auto pass = for_one_pass(a, gradients, backward_launch_of(a, saved, gradients, score));
  const TensorMap q = tensor_map(a.q, s.head_dim, s.queries, s.heads, s.batch),
                  k = tensor_map(a.k, s.head_dim, s.keys, s.kv_heads, s.batch),
                  v = tensor_map(a.v, s.head_dim, s.keys, s.kv_heads, s.batch),
                  d_out = tensor_map(saved.d_out, s.head_dim, s.queries, s.heads, s.batch);
  with_type_and_dim(a, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    using Layout = HopperBackwardLayout<kDim, Score>;
    launch_one_pass<DqPanel<T, kDim>>(
        a, one_pass(a), pass, [&](const OnePassLaunch<Score>& launched, const dim3& grid) {
          launch("dq, dk and dv, Hopper form", &attention_one_pass_hopper_kernel<T, kDim, Score>,
                 grid, kHopperThreads, Layout::kBytes, a.stream,
                 HopperBackwardLaunch<Score>{launched, q, k, v, d_out});
        });
  });
}

}  // namespace phasescope::kernels::cuda
