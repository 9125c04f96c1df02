#include <cuda_runtime.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {
namespace {

/// Sums of |distance| from those of diagonals: a thread for each, grid.y heads of the batch.
struct DistanceJoinLaunch {
  AttentionShape shape;
  const double* diagonals;  // (B, heads, tile_distances(), kThreads)
  double* to;               // (B, heads, length)
  std::int64_t length;
};

__global__ void __launch_bounds__(kThreads)
    attention_distance_join_kernel(const __grid_constant__ DistanceJoinLaunch launch) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= launch.length) return;
  const std::int64_t head = blockIdx.y;
  const double* diagonals = launch.diagonals + head * tile_distances(launch.shape) * kThreads;
  double sum = 0;
  const auto add = [&](std::int64_t tile, int diagonal) {
    sum += diagonals[tile * kThreads + diagonal];
  };
  for_each_part(launch.shape, n, add);
  if (n > 0) for_each_part(launch.shape, -n, add);
  launch.to[head * launch.length + n] = sum;
}

/// Sums of a head's rows, one warp a head.
struct RowJoinLaunch {
  const double* rows;  // (heads, count)
  double* to;          // (heads)
  std::int64_t heads, count;
};

__global__ void __launch_bounds__(kThreads)
    attention_row_join_kernel(const __grid_constant__ RowJoinLaunch launch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.x) * 4 + threadIdx.x / 32;
  if (head >= launch.heads) return;
  double sum = 0;
  const double* rows = launch.rows + head * launch.count;
  for (std::int64_t n = lane; n < launch.count; n += 32) sum += rows[n];
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (lane == 0) launch.to[head] = sum;
}

}  // namespace

void join_distances(const CudaAttention& a, const double* diagonals, double* to,
                    std::int64_t length) {
  if (!to || length == 0) return;
  const unsigned heads = static_cast<unsigned>(a.shape.batch * a.shape.heads);
  launch("join distances", &attention_distance_join_kernel, dim3{blocks_of(length), heads, 1},
         kThreads, 0, a.stream, DistanceJoinLaunch{a.shape, diagonals, to, length});
}

void join_rows(const CudaAttention& a, const double* rows, double* to) {
  if (!to) return;
  const std::int64_t heads = a.shape.batch * a.shape.heads;
  launch("join rows", &attention_row_join_kernel,
         dim3{static_cast<unsigned>((heads + 3) / 4), 1, 1}, kThreads, 0, a.stream,
         RowJoinLaunch{rows, to, heads, a.shape.queries});
}

}  // namespace phasescope::kernels::cuda
