#pragma once
// From dot products to scores of a chunk: 16 rows of a warp x kColumns columns of a tile pair.

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/problem.cuh"
#include "kernels/cuda/tile.cuh"

namespace phasescope::kernels::cuda {

/// Where a thread's part of a chunk lies. Rows are queries and columns keys, or, transposed, the
/// other way round. Queries are given by position (index + query_offset).
template <bool kTransposed>
struct Chunk {
  int row = 0;             // position of the tile's first row
  int column = 0;          // of its first column
  int row_in_tile = 0;     // of the thread's upper row
  int column_in_tile = 0;  // of the thread's first column

  /// For the tile pair at `row`, `column` and the chunk that begins at its column `first`.
  __device__ Chunk(int tile_row, int tile_column, int first, int warp, int lane)
      : row(tile_row),
        column(tile_column),
        row_in_tile(warp * 16 + lane / 4),
        column_in_tile(first + (lane % 4) * 2) {}

  /// Of element e of the accumulator n.
  __device__ int row_of(int e) const { return row + row_in_tile + 8 * (e / 2); }
  __device__ int column_of(int n, int e) const { return column + column_in_tile + n * 8 + e % 2; }
  __device__ int position(int n, int e) const { return kTransposed ? column_of(n, e) : row_of(e); }
  __device__ int key(int n, int e) const { return kTransposed ? row_of(e) : column_of(n, e); }

  /// Distance of the tile pair's entry 0, and the entry of an element.
  __device__ static int first_distance(int tile_row, int tile_column) {
    return (kTransposed ? tile_column - tile_row : tile_row - tile_column) - (kRows - 1);
  }
  /// Of an element's query among the tile's 64.
  __device__ int query_in_tile(int n, int e) const {
    return kTransposed ? column_in_tile + n * 8 + e % 2 : row_in_tile + 8 * (e / 2);
  }
  __device__ int key_in_tile(int n, int e) const {
    return kTransposed ? row_in_tile + 8 * (e / 2) : column_in_tile + n * 8 + e % 2;
  }
  __device__ int entry(int n, int e) const {
    const int ahead = row_in_tile + 8 * (e / 2) - (column_in_tile + n * 8 + e % 2);
    return (kTransposed ? -ahead : ahead) + kRows - 1;
  }
};

/// The entries of a tile pair in shared memory, and the pieces that read them.
template <DeviceScore Score>
struct Entries {
  std::uint32_t at;
  const Pieces<Score::kPieces>& pieces;

  /// By its number, before the pieces.
  __device__ float stored(int n) const {
    return load_shared<float>(at + static_cast<std::uint32_t>(n) * 4);
  }
};

/// A score under a soft cap in the same units, with 1 / cap.
__device__ __forceinline__ float capped(float t, float cap, float inverse) {
  return cap * tanhf(t * inverse);
}

/// The batch entry and head that a block of threads is at.
struct HeadPlace {
  int batch, head;
};

/// An element's number of its own, or the entry that its distance has; 0 where the score has none.
template <DeviceScore Score, bool kTransposed>
__device__ __forceinline__ float entry_of([[maybe_unused]] const Problem<Score>& problem,
                                          [[maybe_unused]] const HeadPlace& at,
                                          const Entries<Score>& entries,
                                          const Chunk<kTransposed>& chunk, int n, int e) {
  if constexpr (Score::kOwn) {
    const int position = chunk.position(n, e);
    const int query = position - static_cast<int>(problem.shape.query_offset);
    if (query >= problem.shape.queries) return 0;
    return problem.score.own(at.batch, at.head, query, position - chunk.key(n, e));
  } else if constexpr (Score::kEntries) {
    return entries.pieces.bias(entries.stored(chunk.entry(n, e)), chunk.query_in_tile(n, e));
  } else {
    return 0;
  }
}

/// A score t of a pair of tokens, log2 units, with their numbers around it. What a table masks
/// stays masked.
template <DeviceScore Score>
__device__ __forceinline__ float with_tokens(const Problem<Score>& problem, const HeadPlace& at,
                                             int query, int key, float t) {
  if (t == -INFINITY) return t;
  const float bias = problem.score.tokens.bias(at.batch, at.head, query, key);
  return problem.score.tokens.factor(at.batch, at.head, query) * fmaf(bias, kLog2e, t);
}

/// Scores in log2 units, before the mask: the variant's, capped.
template <int kColumns, DeviceScore Score, bool kTransposed>
__device__ __forceinline__ void score_chunk(const Problem<Score>& problem, const HeadPlace& at,
                                            const Dots<kColumns, Score>& dots,
                                            const Entries<Score>& entries,
                                            const Chunk<kTransposed>& chunk,
                                            float (&t)[kColumns / 8][4]) {
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float phase = Score::kDots == 2 ? dots.phase[Score::kDots == 2 ? n : 0][e] : 0;
      const float entry = entry_of(problem, at, entries, chunk, n, e);
      t[n][e] = problem.score.score(dots.dot[n][e], phase, entry);
      if constexpr (Score::kTokens) {
        const int query = chunk.position(n, e) - static_cast<int>(problem.shape.query_offset);
        t[n][e] = with_tokens(problem, at, query, chunk.key(n, e), t[n][e]);
      }
    }
  }
  if (problem.soft_cap == 0) return;
  const float cap = problem.soft_cap, inverse = 1 / cap;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) t[n][e] = capped(t[n][e], cap, inverse);
  }
}

/// Calls call(n, e, place of the number) for each element of a chunk of the tile pair whose first
/// query and key these are.
template <int kColumns, bool kTransposed, class Call>
__device__ __forceinline__ void for_each_stored(const Strip& strip, std::int64_t head, int query,
                                                int key, const Chunk<kTransposed>& chunk,
                                                const Call& call) {
  float* first = strip.at(head, query, key);
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      call(n, e, first[chunk.query_in_tile(n, e) * strip.keys + chunk.key_in_tile(n, e)]);
    }
  }
}

/// -inf where the mask or the end of the keys says so; `real` are those of the chunk's tile.
template <int kColumns, bool kTransposed>
__device__ __forceinline__ void mask_chunk(const Visibility& visibility, const RealKeys& real,
                                           const Chunk<kTransposed>& chunk,
                                           float (&t)[kColumns / 8][4]) {
  const std::uint64_t own = real.bits >> chunk.key_in_tile(0, 0);
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int ahead = chunk.key_in_tile(n, e) - chunk.key_in_tile(0, 0);
      const bool exists = own >> ahead & 1;
      if (!exists || !visibility.related(chunk.position(n, e), chunk.key(n, e))) {
        t[n][e] = -INFINITY;
      }
    }
  }
}

}  // namespace phasescope::kernels::cuda
