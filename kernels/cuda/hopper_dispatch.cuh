#pragma once
// From run-time values to the instantiations of a score in Hopper form, and around them what the
// other passes of a forward call are.

#include "kernels/cuda/forward_hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/problem_of.cuh"

namespace phasescope::kernels::cuda {

/// The forward pass with its row probes but for the largest weights. Throws CudaError where the
/// driver refuses a tensor.
template <DeviceScore Score>
void forward_in_hopper_form(const CudaAttention& a, const CudaForwardOutputs& outputs,
                            const Score& score) {
  const AttentionShape& s = a.shape;
  HopperLaunch<Score> parameters{{problem_of(a, score), outputs},
                                 tensor_map(a.q, s.head_dim, s.queries, s.heads, s.batch),
                                 tensor_map(a.k, s.head_dim, s.keys, s.kv_heads, s.batch),
                                 tensor_map(a.v, s.head_dim, s.keys, s.kv_heads, s.batch),
                                 {}};
  if constexpr (Score::kState) {
    const Problem<Score>& problem = parameters.pass.problem;
    parameters.state = tensor_map(problem.state, problem.state_dim, s.keys, s.kv_heads, s.batch);
  }
  const unsigned tiles = tiles_of(s.queries);
  const dim3 grid{(tiles + kHopperGroups - 1) / kHopperGroups, static_cast<unsigned>(s.heads),
                  static_cast<unsigned>(s.batch)};
  with_type_and_dim(a, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    const auto start = [&](auto probes) {
      launch("forward, Hopper form", &attention_hopper_kernel<T, kDim, decltype(probes), Score>,
             grid, kHopperThreads, HopperLayout<kDim, Score>::kBytes, a.stream, parameters);
    };
    if (wants_row_probes(outputs.rows)) {
      start(AllProbes{});
    } else {
      start(NoProbes{});
    }
  });
}

}  // namespace phasescope::kernels::cuda
