#pragma once
// From run-time values to the instantiations of a score: two 16-bit types, head dimensions up to 64
// and up to 128, probes off and on.

#include <cstdint>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/forward_kernel.cuh"

namespace phasescope::kernels::cuda {

template <DeviceScore Score>
Problem<Score> problem_of(const CudaAttention& a, const Score& score) {
  Problem<Score> problem{a.shape, a.q, a.k, a.v, {}, 0, score, a.soft_cap * kLog2e, a.key_mask};
  if (const auto* tape = std::get_if<CudaTapeVariant>(&a.variant)) {
    problem.state = tape->state;
    problem.state_dim = tape->state_dim;
  }
  return problem;
}

inline unsigned tiles_of(std::int64_t rows) {
  return static_cast<unsigned>((rows + kRows - 1) / kRows);
}

/// Calls `with` with a value of the 16-bit type and an integral constant of the head dimension.
template <class Call>
void with_type_and_dim(const CudaAttention& a, const Call& with) {
  const auto with_dim = [&](auto type) {
    if (a.shape.head_dim <= 64) {
      with(type, std::integral_constant<int, 64>{});
    } else {
      with(type, std::integral_constant<int, 128>{});
    }
  };
  if (a.type == CudaType::bfloat16) {
    with_dim(__nv_bfloat16{});
  } else {
    with_dim(__half{});
  }
}

inline bool wants_probes(const RowProbes& rows) {
  bool wanted = rows.entropy || rows.max_score || rows.max_key || rows.top1_mass ||
                rows.first_key_weight || rows.mean_distance;
  for (const float* window : rows.window_mass) wanted = wanted || window;
  return wanted;
}

template <DeviceScore Score>
void forward_with(const CudaAttention& a, const CudaForwardOutputs& outputs, const Score& score) {
  const ForwardLaunch<Score> parameters{problem_of(a, score), outputs};
  const dim3 grid{tiles_of(a.shape.queries), static_cast<unsigned>(a.shape.heads),
                  static_cast<unsigned>(a.shape.batch)};
  with_type_and_dim(a, [&](auto type, auto dim) {
    using T = decltype(type);
    constexpr int kDim = decltype(dim)::value;
    const auto kernel = wants_probes(outputs.rows)
                            ? &attention_forward_kernel<T, kDim, AllProbes, Score>
                            : &attention_forward_kernel<T, kDim, NoProbes, Score>;
    launch(kernel, grid, kThreads, ForwardLayout<kDim, Score>::kBytes, a.stream, parameters);
  });
}

}  // namespace phasescope::kernels::cuda
