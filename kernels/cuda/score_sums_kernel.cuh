#pragma once
// Sums over the pairs of a head by row, by key or by distance: of scores, and of the gradients of
// the softmax's inputs. A block has a tile of queries, a tile of keys or one distance of tiles; the
// numbers of a pair of tiles pass through shared memory, where a thread sums one row, column or
// diagonal of them in float32, then over pairs of tiles in float64. The same bits every time.
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. this one: one more q.k product for each of the three; not yet run.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/buckets_kernel.cuh"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

enum class SumsBy { row, key, distance };

template <DeviceScore Score>
struct SumsLaunch {
  BackwardLaunch<Score> pairs;
  SumsBy by;
  double* sums;  // (B, heads, queries), (B, heads, keys) or (B, heads, tile_distances(), kThreads)
  // Of scores alone.
  const double* shift = nullptr;  // (B, heads, queries), what is taken off each; null: 0
  double* squares = nullptr;      // by row, like the sums; null where not wanted
  std::int64_t* count = nullptr;  // likewise
};

/// One number for each pair of a pair of tiles, -inf where it does not count, in the shared memory
/// of the tiles, which have been read by then: for TAPE's there would be no room beside them.
template <int D, DeviceScore Score, bool kGradients, int kValueDim = D>
struct SumsLayout {
  using Tiles = PairLayout<D, Score, kGradients, 1, 1, 1, kValueDim>;
  static constexpr int kBytes =
      Tiles::kBytes > Tiles::kPairBytes ? Tiles::kBytes : Tiles::kPairBytes;
  static_assert(kBytes <= CudaHeads{D, kValueDim}.shared_bytes(kGradients));
};

/// Thread n's: of row, column or diagonal n of the pairs of tiles.
struct LineSums {
  double sum = 0, square = 0;
  std::int64_t pairs = 0;

  /// Thread 127 has no diagonal, threads from 64 on neither row nor column.
  __device__ static bool exists(SumsBy by, int n) {
    return n < (by == SumsBy::distance ? 2 * kRows - 1 : kRows);
  }

  __device__ void add_line(SumsBy by, int n) {
    if (!exists(by, n)) return;
    const bool diagonal = by == SumsBy::distance;
    const int first = diagonal ? max(0, n - (kRows - 1)) : 0;
    const int last = diagonal ? min(kRows, n + 1) : kRows;
    float part = 0, squares = 0;
    int count = 0;
    for (int k = first; k < last; ++k) {
      const int row = by == SumsBy::row ? n : k;
      const int column = by == SumsBy::row ? k : by == SumsBy::key ? n : k + kRows - 1 - n;
      const float x = load_shared<float>(shared_memory() + pair_offset(row, column));
      if (x == -INFINITY) continue;
      part += x;
      squares = fmaf(x, x, squares);
      ++count;
    }
    sum += static_cast<double>(part);
    square += static_cast<double>(squares);
    pairs += count;
  }
};

/// The tiles of queries and of keys whose scores a launch has.
template <class Score>
__device__ __forceinline__ Stretch given_query_tiles(const Problem<Score>& problem) {
  if constexpr (Score::kStored) {
    const Strip& strip = problem.score.strip;
    return {static_cast<int>(strip.first / kRows), static_cast<int>(tiles_of(strip.last))};
  } else {
    return {0, static_cast<int>(tiles_of(problem.shape.queries))};
  }
}
template <class Score>
__device__ __forceinline__ Stretch given_key_tiles(const Problem<Score>& problem) {
  return given_tiles(problem, {0, static_cast<int>(tiles_of(problem.shape.keys))});
}

/// Calls call(part, visibility, first query, first key) for the pairs of tiles of a block that hold
/// what is seen.
template <DeviceScore Score, class Call>
__device__ __forceinline__ void for_each_pair_of_tiles(const Problem<Score>& problem, SumsBy by,
                                                       const Call& call) {
  const Stretch queries = given_query_tiles(problem), keys = given_key_tiles(problem);
  const int block = static_cast<int>(blockIdx.x);
  const int ahead = block - (static_cast<int>(tiles_of(problem.shape.keys)) - 1);
  const Stretch steps = by == SumsBy::row   ? keys
                        : by == SumsBy::key ? queries
                                            : Stretch{max(queries.first, keys.first + ahead),
                                                      min(queries.last, keys.last + ahead)};
  for (int part = Score::kParts - 1; part >= 0; --part) {
    const Visibility visibility(problem, batch_of(problem), static_cast<int>(blockIdx.y), part);
    for (int step = steps.first; step < steps.last; ++step) {
      const int query_tile = by == SumsBy::row ? queries.first + block : step;
      const int key_tile = by == SumsBy::key   ? keys.first + block
                           : by == SumsBy::row ? step
                                               : step - ahead;
      if (!visibility.sees(query_tile * kRows, key_tile * kRows)) continue;
      call(part, visibility, query_tile * kRows, key_tile * kRows);
    }
  }
}

/// What a block does with a pair of tiles.
template <typename T, int D, DeviceScore Score, bool kGradients, int kValueDim>
class SumsOfTiles {
  using Pair = TilePair<T, D, false, Score, kGradients, 1, 1, 1, kValueDim>;

 public:
  __device__ explicit SumsOfTiles(const SumsLaunch<Score>& launch)
      : launch_(launch), pair_(launch.pairs) {}

  /// Leaves the pairs' numbers in shared memory, seen by all.
  __device__ void compute(int part, const Visibility& visibility, int query, int key) {
    const int batch = batch_of(launch_.pairs.problem), head = static_cast<int>(blockIdx.y);
    pair_.take_part(part);
    pair_.fetch_queries(batch, head, query);
    pair_.fetch_keys(batch, head / pair_.group(), key);
    pair_.begin(head, query, key);
    float held[kRows / kColumns][kColumns / 8][4];
#pragma unroll
    for (int c = 0; c < kRows / kColumns; ++c) {
      numbers_of(visibility, batch, head, query, key, c * kColumns, held[c]);
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kRows / kColumns; ++c) {
      const Chunk<false> chunk(0, 0, c * kColumns, pair_.warp(), pair_.lane());
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          store_shared(shared_memory() + pair_offset(chunk.row_of(e), chunk.column_of(n, e)),
                       held[c][n][e]);
        }
      }
    }
    __syncthreads();
  }

 private:
  __device__ __forceinline__ void numbers_of(const Visibility& visibility, int batch, int head,
                                             int query, int key, int first,
                                             float (&x)[kColumns / 8][4]) {
    if constexpr (kGradients) {
      pair_.compute_input_gradients(visibility, query, key, first);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) x[n][e] = pair_.d_score[0][n][e];
      }
    } else {
      Dots<kColumns, Score> dots;
      const auto chunk = pair_.compute_scores(visibility, query, key, first, dots, x);
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const int row = chunk.row_of(e) - pair_.position(0);
        const double shift = shift_of(batch, head, row);
        const float high = static_cast<float>(shift);
        const float low = static_cast<float>(shift - static_cast<double>(high));
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
          for (int side = e; side < e + 2; ++side) {
            float& t = x[n][side];
            const bool seen = t != -INFINITY && row < pair_.queries();
            t = seen ? fmaf(t, kNaturalHigh, -high) + fmaf(t, kNaturalLow, -low) : -INFINITY;
          }
        }
      }
    }
  }
  __device__ double shift_of(int batch, int head, int row) const {
    if (!launch_.shift || row >= pair_.queries()) return 0;
    const AttentionShape& shape = launch_.pairs.problem.shape;
    return launch_.shift[(batch * shape.heads + head) * shape.queries + row];
  }

  const SumsLaunch<Score>& launch_;
  Pair pair_;
};

/// Writes a block's sums; of strips after the first one, to what those before have left.
template <DeviceScore Score>
__device__ __forceinline__ void write_sums(const SumsLaunch<Score>& launch, LineSums sums) {
  const Problem<Score>& problem = launch.pairs.problem;
  const AttentionShape& shape = problem.shape;
  const int n = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const std::int64_t head = batch_of(problem) * shape.heads + blockIdx.y;
  std::int64_t at = (head * tile_distances(shape) + block) * kThreads + n;
  if (launch.by != SumsBy::distance) {
    const bool by_row = launch.by == SumsBy::row;
    const Stretch tiles = by_row ? given_query_tiles(problem) : given_key_tiles(problem);
    const std::int64_t line = (tiles.first + block) * kRows + n;
    const std::int64_t count = by_row ? shape.queries : shape.keys;
    if (n >= kRows || line >= count) return;
    at = head * count + line;
  }
  if constexpr (Score::kStored) {
    const Strip& strip = problem.score.strip;
    const bool first_rows = launch.by == SumsBy::row || strip.first == 0;
    const bool first_keys = launch.by == SumsBy::key || strip.first_key == 0;
    if (!first_rows || !first_keys) {
      if (launch.sums) sums.sum += launch.sums[at];
      if (launch.squares) sums.square += launch.squares[at];
      if (launch.count) sums.pairs += launch.count[at];
    }
  }
  if (launch.sums) launch.sums[at] = sums.sum;
  if (launch.squares) launch.squares[at] = sums.square;
  if (launch.count) launch.count[at] = sums.pairs;
}

/// grid.x tiles of queries or of keys (of a strip where scores are stored) or distances of tiles,
/// grid.y heads, grid.z batch entries.
template <typename T, int D, DeviceScore Score, bool kGradients, int kValueDim = D>
__global__ void __launch_bounds__(kThreads)
    attention_sums_kernel(const __grid_constant__ SumsLaunch<Score> launch) {
  SumsOfTiles<T, D, Score, kGradients, kValueDim> tiles(launch);
  LineSums sums;
  for_each_pair_of_tiles(launch.pairs.problem, launch.by,
                         [&](int part, const Visibility& visibility, int query, int key) {
                           tiles.compute(part, visibility, query, key);
                           sums.add_line(launch.by, static_cast<int>(threadIdx.x));
                           __syncthreads();
                         });
  write_sums(launch, sums);
}

}  // namespace phasescope::kernels::cuda
