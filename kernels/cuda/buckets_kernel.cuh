#pragma once
// Sums over the pairs of a head by distance, after the forward pass and from its log-sum-exp: one
// more q.k product, the same bits every time. This kernel sums over diagonals, a block for each
// tile distance of a head; the one of buckets.cu joins the distances of a bucket.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

/// Of one diagonal of a tile distance; scores in log2 units.
struct DistanceSums {
  float weight = 0, score = 0, square = 0;
  std::int32_t pairs = 0;
};
static_assert(sizeof(DistanceSums) == 16, "distance_sums_bytes() counts on it");
__device__ inline DistanceSums joined(const DistanceSums& a, const DistanceSums& b) {
  return {a.weight + b.weight, a.score + b.score, a.square + b.square, a.pairs + b.pairs};
}

template <DeviceScore Score>
struct DistancesLaunch {
  BackwardLaunch<Score> pairs;
  DistanceSums* sums;  // (B, heads, tile_distances(), kThreads)
};

template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kThreads)
    attention_distances_kernel(const __grid_constant__ DistancesLaunch<Score> launch) {
  TilePair<T, D, false, Score, false> pair(launch.pairs);
  const AttentionShape& shape = launch.pairs.problem.shape;
  const int batch = batch_of(launch.pairs.problem), head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const TileDistance tiles(shape, blockIdx.x);
  const Visibility visibility(launch.pairs.problem, batch);
  DistanceSums sums;
  int first_tile = tiles.first(), last_tile = tiles.last();
  if constexpr (Score::kStored) {
    const Strip& strip = launch.pairs.problem.score.strip;
    first_tile = max(first_tile, static_cast<int>(strip.first / kRows));
    last_tile = min(last_tile, static_cast<int>(tiles_of(strip.last)));
    if (first_tile >= last_tile && strip.first > 0) return;
  }
  for (int tile = first_tile; tile < last_tile; ++tile) {
    const int query = tile * kRows, key = (tile - tiles.ahead) * kRows;
    if (!visibility.sees(query, key)) continue;
    pair.fetch_queries(batch, head, query);
    pair.fetch_keys(batch, head / pair.group(), key);
    pair.begin(head, query, key);
    for (int first = 0; first < kRows; first += kColumns) {
      Dots<kColumns, Score> dots;
      float t[kColumns / 8][4];
      pair.compute_scores(visibility, query, key, first, dots, t);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) pair.store(first, n, e, t[n][e]);
      }
    }
    __syncthreads();
    DistanceSums part;
    pair.for_diagonal(thread, [&](int row, float t) {
      if (t == -INFINITY || query + row >= pair.queries()) return;
      part.weight += fast_exp2(t - pair.lse_of_row(row));
      part.score += t;
      part.square += t * t;
      ++part.pairs;
    });
    sums = joined(sums, part);
    __syncthreads();
  }
  const std::int64_t at =
      ((batch * shape.heads + head) * gridDim.x + blockIdx.x) * kThreads + thread;
  if constexpr (Score::kStored) {
    // After the batch entry's first rows, to what the rows before left.
    if (launch.pairs.problem.score.strip.first > 0) sums = joined(launch.sums[at], sums);
  }
  launch.sums[at] = sums;
}

}  // namespace phasescope::kernels::cuda
