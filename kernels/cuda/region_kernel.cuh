#pragma once
// Scores and weights of a region of the map, computed again for its pairs alone. A block has a tile
// of queries and a tile of keys, which lie as in all other passes, and writes what the region has
// of them.
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. this one: rows leave by 32 bytes, as the accumulators have them; not yet run.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

template <DeviceScore Score>
struct RegionLaunch {
  BackwardLaunch<Score> pairs;  // saved.lse: of the forward pass, where weights are wanted
  Region region;
  float* scores;      // (head_count, rows, columns), natural units; null where not wanted
  float* weights;     // likewise
  Stretch key_tiles;  // that hold the region's columns; of a strip where scores are stored
  int first_query_tile;
};

/// The scores of a pair of tiles that a thread has, log2 units, -inf where masked; and where they
/// go.
template <typename T, int D, DeviceScore Score>
class RegionOfTiles {
  using Pair = TilePair<T, D, false, Score, false>;
  static constexpr int kChunks = kRows / kColumns;

 public:
  __device__ explicit RegionOfTiles(const RegionLaunch<Score>& launch)
      : launch_(launch),
        pair_(launch.pairs),
        head_(static_cast<int>(launch.region.head_begin + blockIdx.y)) {
    const int tiles = launch.key_tiles.last - launch.key_tiles.first;
    const int block = static_cast<int>(blockIdx.x);
    query_ = (launch.first_query_tile + block / tiles) * kRows;
    key_ = (launch.key_tiles.first + block % tiles) * kRows;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) t_[c][n][e] = -INFINITY;
      }
    }
  }

  __device__ void compute() {
    const Problem<Score>& problem = launch_.pairs.problem;
    const int batch = static_cast<int>(launch_.region.batch);
    for (int part = Score::kParts - 1; part >= 0; --part) {
      const Visibility visibility(problem, batch, head_, part);
      if (!visibility.sees(query_, key_)) continue;
      __syncthreads();  // the part before has been read
      pair_.take_part(part);
      pair_.fetch_queries(batch, head_, query_);
      pair_.fetch_keys(batch, head_ / pair_.group(), key_);
      pair_.begin(head_, query_, key_);
#pragma unroll
      for (int c = 0; c < kChunks; ++c) take(visibility, c);
    }
  }

  /// What the region has of them.
  __device__ void write() const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const Chunk<false> chunk(query_, key_, c * kColumns, pair_.warp(), pair_.lane());
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        // Of a pair that is seen the tile's log-sum-exps are there.
        const int row = chunk.query_in_tile(0, e);
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          write(query_ + row, chunk.column_of(n, e), row, t_[c][n][e]);
        }
      }
    }
  }

 private:
  /// A pair is one part's alone.
  __device__ __forceinline__ void take(const Visibility& visibility, int c) {
    Dots<kColumns, Score> dots;
    float t[kColumns / 8][4];
    pair_.compute_scores(visibility, query_, key_, c * kColumns, dots, t);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (t[n][e] != -INFINITY) t_[c][n][e] = t[n][e];
      }
    }
  }

  __device__ __forceinline__ void write(int query, int key, int row, float t) const {
    const Region& region = launch_.region;
    if (query < region.row_begin || query >= region.row_end) return;
    if (key < region.col_begin || key >= region.col_end) return;
    const std::int64_t rows = region.row_end - region.row_begin;
    const std::int64_t columns = region.col_end - region.col_begin;
    const std::int64_t at =
        (blockIdx.y * rows + query - region.row_begin) * columns + key - region.col_begin;
    if (launch_.scores) launch_.scores[at] = t * kLn2;
    if (launch_.weights) {
      launch_.weights[at] = t == -INFINITY ? 0 : fast_exp2(t - pair_.lse_of_row(row));
    }
  }

  const RegionLaunch<Score>& launch_;
  Pair pair_;
  int head_, query_, key_;
  float t_[kChunks][kColumns / 8][4];
};

/// grid.x pairs of the tiles that hold the region's rows and columns, grid.y its heads.
template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kThreads)
    attention_region_kernel(const __grid_constant__ RegionLaunch<Score> launch) {
  RegionOfTiles<T, D, Score> tiles(launch);
  tiles.compute();
  tiles.write();
}

}  // namespace phasescope::kernels::cuda
