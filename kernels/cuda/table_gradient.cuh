#pragma once
// The backward pass of scores that read a table, with the table's gradient.

#include <cstdint>

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

/// Entries of a table's gradient from the diagonals: one thread an entry.
struct TableLaunch {
  AttentionShape shape;
  TableVariant table;
  const float* diagonals;  // (heads, tile_distances(), kThreads)
  float* d_table;
  std::int64_t d_table_stride;
};

static __global__ void __launch_bounds__(kThreads)
    attention_table_kernel(const __grid_constant__ TableLaunch launch) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= launch.table.length) return;
  const float* diagonals = launch.diagonals + static_cast<std::int64_t>(blockIdx.y) *
                                                  tile_distances(launch.shape) * kThreads;
  float sum = diagonal_sum(launch.shape, diagonals, n + launch.table.first_distance);
  if (launch.table.first_distance == 0 && n > 0) sum += diagonal_sum(launch.shape, diagonals, -n);
  launch.d_table[blockIdx.y * launch.d_table_stride + n] = sum;
}

/// The table's gradient, in two launches.
template <typename T, int D, DeviceScore Score>
void launch_table(const CudaAttention& a, const TableGradients& to,
                  const BackwardLaunch<Score>& parameters) {
  const unsigned heads = static_cast<unsigned>(a.shape.heads);
  launch("diagonals", &attention_diagonals_kernel<T, D, Score>,
         dim3{tile_distances(a.shape), heads, 1}, kThreads, PairLayout<D, Score>::kBytesWithPairs,
         a.stream, parameters);
  const auto& table = std::get<TableVariant>(a.variant);
  launch("table", &attention_table_kernel, dim3{blocks_of(table.length), heads, 1}, kThreads, 0,
         a.stream, TableLaunch{a.shape, table, parameters.diagonals, to.values, to.head_stride});
}

template <DeviceScore Score>
void backward_with_table(const CudaAttention& a, const SavedForward& saved,
                         const CudaGradients& gradients, const Score& score) {
  backward_with(a, saved, gradients, score, [&](auto type, auto dim, const auto& parameters) {
    const auto* to = std::get_if<TableGradients>(&gradients.variant);
    if (!to || !to->values || std::get<TableVariant>(a.variant).length == 0) return;
    launch_table<decltype(type), decltype(dim)::value>(a, *to, parameters);
  });
}

}  // namespace phasescope::kernels::cuda
