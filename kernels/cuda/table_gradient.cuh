#pragma once
// The backward pass of scores that read a table, with the table's gradient.

#include <cstdint>

#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

/// Entries of a table's gradient from what the blocks of attention_dq_table_kernel left, or of the
/// backward pass in one kernel: one thread an entry, grid.y heads.
struct TableLaunch {
  AttentionShape shape;
  TableVariant table;
  const float* distances;  // (B, heads, blocks, block_distances())
  int blocks;
  float* d_table;
  std::int64_t d_table_stride;
};

/// Of a head: what all its blocks have of a distance, in their order.
__device__ inline float sum_of_distance(const TableLaunch& launch, std::int64_t head,
                                        std::int64_t distance) {
  const AttentionShape& s = launch.shape;
  const std::int64_t size = block_distances(s);
  const std::int64_t at = distance - s.query_offset + std::int64_t{kRows} * tiles_of(s.keys) - 1;
  if (at < 0 || at >= size) return 0;
  float sum = 0;
  for (std::int64_t batch = 0; batch < s.batch; ++batch) {
    const float* first = launch.distances + (batch * s.heads + head) * launch.blocks * size + at;
    for (std::int64_t block = 0; block < launch.blocks; ++block) sum += first[block * size];
  }
  return sum;
}

static __global__ void __launch_bounds__(kThreads)
    attention_table_kernel(const __grid_constant__ TableLaunch launch) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= launch.table.length) return;
  float sum = sum_of_distance(launch, blockIdx.y, n + launch.table.first_distance);
  if (launch.table.first_distance == 0 && n > 0) sum += sum_of_distance(launch, blockIdx.y, -n);
  launch.d_table[blockIdx.y * launch.d_table_stride + n] = sum;
}

/// dq with the blocks' sums.
template <typename T, int D, int kValueDim, DeviceScore Score>
void launch_dq_and_sums(const CudaAttention& a, unsigned blocks,
                        const BackwardLaunch<Score>& parameters) {
  constexpr int kBytes = TableSumsPlace<D, Score, kValueDim>::kBytes;
  static_assert(D <= 128 || kBytes <= CudaHeads{D, kValueDim}.shared_bytes(true));
  launch("dq and table", &attention_dq_table_kernel<T, D, Score, kValueDim>,
         dim3{blocks, static_cast<unsigned>(a.shape.heads), static_cast<unsigned>(a.shape.batch)},
         kThreads, kBytes, a.stream, parameters);
}

template <class Heads = UsualHeads, DeviceScore Score>
void backward_with_table(const CudaAttention& a, const SavedForward& saved,
                         const CudaGradients& gradients, const Score& score,
                         BackwardLauncher* in_hopper_form = nullptr) {
  const auto& table = std::get<TableVariant>(a.variant);
  const bool wanted = wants_table(a, gradients);
  const OnePass plan = one_pass(a);
  const unsigned blocks = plan.units > 0 ? plan.partials : table_blocks(a).count;
  const auto dq = [&](auto type, auto dim, const auto& parameters) {
    using T = decltype(type);
    using Size = decltype(dim);
    if (wanted) {
      launch_dq_and_sums<T, Size::value, Size::values>(a, blocks, parameters);
    } else {
      launch_dq<T, Size::value, Size::values>(a, parameters);
    }
  };
  const auto finish = [&](auto, auto, const auto& parameters) {
    if (!wanted) return;
    const auto& to = std::get<TableGradients>(gradients.variant);
    launch("table", &attention_table_kernel,
           dim3{blocks_of(table.length), static_cast<unsigned>(a.shape.heads), 1}, kThreads, 0,
           a.stream,
           TableLaunch{a.shape, table, parameters.distances, static_cast<int>(blocks), to.values,
                       to.head_stride});
  };
  backward_with<Heads>(a, saved, gradients, score, dq, finish, in_hopper_form);
}

}  // namespace phasescope::kernels::cuda
