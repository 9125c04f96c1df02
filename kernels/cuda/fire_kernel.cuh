#pragma once
// Gradients of what FIRE's bias is made of, after backward_kernel.cuh and like it the same bits
// every time:
//
//   attention_dq_kernel      leaves the sums of each row, for its factor
//   attention_pieces_kernel  a block goes over the tile pairs of one distance: sums over diagonals
//                            for the distances, and by segment for slopes and intercepts
//   attention_fire_kernel    joins what heads, batch entries and tile distances left

#include <cuda_runtime.h>

#include "kernels/cuda/backward_kernel.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kBlockSumBytes = kThreads / 32 * 8;

/// Sum over the block's threads, for all of them; `shared` holds kBlockSumBytes.
__device__ inline float2 block_sum(std::uint32_t shared, float2 x) {
  for (int mask = 16; mask > 0; mask /= 2) {
    x.x += __shfl_xor_sync(0xffffffffu, x.x, mask);
    x.y += __shfl_xor_sync(0xffffffffu, x.y, mask);
  }
  const std::uint32_t warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) store_shared(shared + warp * 8, x);
  __syncthreads();
  float2 sum{0, 0};
  for (std::uint32_t n = 0; n < kThreads / 32; ++n) {
    const float2 part = load_shared<float2>(shared + n * 8);
    sum = {sum.x + part.x, sum.y + part.y};
  }
  __syncthreads();
  return sum;
}

/// Calls call() for each pair of tiles of one distance, over the batch, with the gradients of its
/// scores kept in the pair's memory. All threads may read them until call() returns.
template <class Pair, DeviceScore Score, class Call>
__device__ __forceinline__ void for_each_tile(Pair& pair, const BackwardLaunch<Score>& launch,
                                              int head, const TileDistance& tiles,
                                              const Call& call) {
  for (int batch = 0; batch < static_cast<int>(launch.problem.shape.batch); ++batch) {
    const Visibility visibility(launch.problem, batch);
    for (int tile = tiles.first(); tile < tiles.last(); ++tile) {
      const int query = tile * kRows, key = (tile - tiles.ahead) * kRows;
      if (!visibility.sees(query, key)) continue;
      pair.fetch_queries(batch, head, query);
      pair.fetch_keys(batch, head / pair.group(), key);
      pair.begin(head, query, key);
      for (int first = 0; first < kRows; first += kColumns) {
        pair.compute(visibility, query, key, first);
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) pair.store(first, n, e, pair.d_score[0][n][e]);
        }
      }
      __syncthreads();
      call();
      __syncthreads();
    }
  }
}

/// What the diagonals (tile_distances(), kThreads) of a head hold of a distance.
__device__ inline float diagonal_sum(const AttentionShape& shape, const float* diagonals,
                                     std::int64_t distance) {
  float sum = 0;
  for_each_part(shape, distance,
                [&](std::int64_t tile, int n) { sum += diagonals[tile * kThreads + n]; });
  return sum;
}

/// Thread n holds the sums of diagonal n and of segment n.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads)
    attention_pieces_kernel(const __grid_constant__ BackwardLaunch<FireScore> launch) {
  TilePair<T, D, false, FireScore> pair(launch);
  const int head = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  const TileDistance tiles(launch.problem.shape, blockIdx.x);
  const Pieces<true>& pieces = pair.pieces();
  const std::uint32_t sums = shared_memory() + PairLayout<D, FireScore>::kBytesWithPairs;
  float diagonal = 0;
  float2 piece{0, 0};
  for_each_tile(pair, launch, head, tiles, [&] {
    // Thread 127 has no diagonal, and reads no entry beyond the tile's.
    const float distance = pair.entries().stored(min(thread, 2 * kRows - 2));
    float part = 0;
    pair.for_diagonal(thread, [&](int row, float d_score) {
      part += d_score * (pieces.slope(distance * pieces.factor(row)) * pieces.factor(row));
    });
    diagonal += part;
    for (int segment = pieces.first(); segment <= pieces.last(); ++segment) {
      float2 own{0, 0};
      pair.for_diagonal(thread, [&](int row, float d_score) {
        const float u = distance * pieces.factor(row);
        if (pieces.segment(u) == segment) own = {own.x + d_score * u, own.y + d_score};
      });
      own = block_sum(sums, own);
      if (thread == segment) piece = {piece.x + own.x, piece.y + own.y};
    }
  });
  const std::int64_t at = static_cast<std::int64_t>(head) * gridDim.x + blockIdx.x;
  launch.diagonals[at * kThreads + thread] = diagonal;
  if (thread < kMostSegments) launch.pieces[at * kMostSegments + thread] = piece;
}

struct FireLaunch {
  AttentionShape shape;
  FireVariant fire;
  const float* diagonals;  // as in BackwardLaunch
  const float* factors;
  const float2* pieces;
  FireGradients to;
};

__device__ inline void join_distance(const FireLaunch& launch, std::int64_t n) {
  if (!launch.to.distance || n >= launch.fire.length) return;
  const std::int64_t size = std::int64_t{tile_distances(launch.shape)} * kThreads;
  double sum = 0;
  for (std::int64_t h = 0; h < launch.shape.heads; ++h) {
    sum += static_cast<double>(diagonal_sum(launch.shape, launch.diagonals + h * size, n));
  }
  launch.to.distance[n] = static_cast<float>(sum);
}

__device__ inline void join_factor(const FireLaunch& launch, std::int64_t n) {
  if (!launch.to.factor || n >= launch.shape.queries) return;
  double sum = 0;
  for (std::int64_t h = 0; h < launch.shape.batch * launch.shape.heads; ++h) {
    sum += static_cast<double>(launch.factors[h * launch.shape.queries + n]);
  }
  launch.to.factor[n] = static_cast<float>(sum);
}

__device__ inline void join_piece(const FireLaunch& launch, std::int64_t n) {
  const std::int64_t head = n / launch.fire.segments, segment = n % launch.fire.segments;
  if (head >= launch.shape.heads) return;
  const std::int64_t tiles = tile_distances(launch.shape);
  double slope = 0, intercept = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const float2 piece = launch.pieces[(head * tiles + tile) * kMostSegments + segment];
    slope += static_cast<double>(piece.x);
    intercept += static_cast<double>(piece.y);
  }
  const std::int64_t at = head * launch.to.head_stride + segment;
  if (launch.to.slope) launch.to.slope[at] = static_cast<float>(slope);
  if (launch.to.intercept) launch.to.intercept[at] = static_cast<float>(intercept);
}

/// One thread an entry; grid.y: distances, factors, pieces.
__global__ void __launch_bounds__(kThreads)
    attention_fire_kernel(const __grid_constant__ FireLaunch launch) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (blockIdx.y == 0) {
    join_distance(launch, n);
  } else if (blockIdx.y == 1) {
    join_factor(launch, n);
  } else {
    join_piece(launch, n);
  }
}

}  // namespace phasescope::kernels::cuda
