// Gates of the output on the way back: what comes in for the output becomes what comes in for the
// averaged values, which all other kernels read, and the gates have their own gradients.
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/problem.cuh"

namespace phasescope::kernels::cuda {
namespace {

struct GateLaunch {
  AttentionShape shape;
  InputTensor gate, out, d_out;  // `out` before the gate
  int gate_dim;
  OutputTensor d_values;  // d_out times the gate
  OutputTensor d_gate;    // no data: not wanted
};

/// One warp a row: grid.x blocks of four rows.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    attention_gate_kernel(const __grid_constant__ GateLaunch launch) {
  const AttentionShape& s = launch.shape;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * 4 + threadIdx.x / 32;
  if (at >= s.batch * s.heads * s.queries) return;
  const std::int64_t row = at % s.queries, head = at / s.queries % s.heads,
                     batch = at / s.queries / s.heads;
  const auto row_of = [&](const auto& t) {
    return pointer<std::uint16_t>(t, batch, head) + row * t.row;
  };
  const std::uint16_t *out = row_of(launch.out), *d_out = row_of(launch.d_out);
  std::uint16_t* d_values = row_of(launch.d_values);
  const RowGate<T> gate(launch.gate, launch.gate_dim, batch, head, row);
  const auto stored = [](float x) { return static_cast<std::uint16_t>(Half<T>::pack(x, 0)); };
  float sum = 0;
  for (int c = lane; c < static_cast<int>(values_of(s)); c += 32) {
    const float d = Half<T>::low(d_out[c]), product = d * Half<T>::low(out[c]);
    d_values[c] = stored(d * gate.of(c));
    if (launch.d_gate.data && gate.by_channel) row_of(launch.d_gate)[c] = stored(product);
    sum += product;
  }
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (lane == 0 && launch.d_gate.data && !gate.by_channel) row_of(launch.d_gate)[0] = stored(sum);
}

}  // namespace

InputTensor launch_gates(const CudaAttention& a, const SavedForward& saved,
                         const CudaGradients& gradients, void* memory) {
  const AttentionShape& s = a.shape;
  const std::int64_t width = values_of(s);
  const OutputTensor to{memory, s.heads * s.queries * width, s.queries * width, width, a.q.storage};
  const std::int64_t rows = s.batch * s.heads * s.queries;
  const auto kernel = a.q.storage == Storage::bfloat16 ? &attention_gate_kernel<__nv_bfloat16>
                                                       : &attention_gate_kernel<__half>;
  launch("gates", kernel, dim3{static_cast<unsigned>((rows + 3) / 4), 1, 1}, kThreads, 0, a.stream,
         GateLaunch{s, a.gate, saved.out, saved.d_out, static_cast<int>(a.gate_dim), to,
                    gradients.gate});
  return {to.data, to.batch, to.head, to.row, to.storage};
}

}  // namespace phasescope::kernels::cuda
