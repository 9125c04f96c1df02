#pragma once
// Sums of the scores' gradients by distance, which the blocks that make dq leave on their way: each
// warp adds up the diagonals of its rows in shared memory of its own, the block joins the warps
// once a pair of tiles, and adds them to memory that no other block writes, or to that of all.
// Where a block takes several stretches of queries it adds to the same sums, so that memory stays
// linear in the length.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

/// A warp's gradients of a chunk: rows r and r + 8 of a diagonal are added in registers, which
/// leaves 8 rows of 40 numbers, column 8 being the chunk's first. Rows are 40 apart: two columns of
/// four rows, which a half warp stores at once, lie in 32 different banks.
inline constexpr int kStagedRows = 8, kStagedPitch = 40;
__device__ __forceinline__ constexpr std::uint32_t staged_offset(int row, int column) {
  return static_cast<std::uint32_t>(row * kStagedPitch + column) * 4;
}

/// The sums of a warp's 47 diagonals of 16 rows x 32 columns: of lane n those of column minus row
/// n - 15 and, below lane 15, n + 17. `staged` has room for kStagedRows; __syncwarp before it is
/// used again.
struct DiagonalSums {
  float low = 0, high = 0;

  template <int kChunk>
  __device__ __forceinline__ DiagonalSums(std::uint32_t staged, int lane,
                                          const float (&gradient)[kChunk][4]) {
    static_assert(kChunk * 8 == 32);
#pragma unroll
    for (int n = 0; n <= kChunk; ++n) {
      // Columns 8 n - 8 of the chunk on: of row r those, of row r + 8 the 8 behind them.
      float2 pair{0, 0};
      if (n > 0) pair = {gradient[n - 1][0], gradient[n - 1][1]};
      if (n < kChunk) pair = {pair.x + gradient[n][2], pair.y + gradient[n][3]};
      store_shared(staged + staged_offset(lane / 4, 8 * n + lane % 4 * 2), pair);
    }
    __syncwarp();
#pragma unroll
    for (int row = 0; row < kStagedRows; ++row) {
      const int column = lane + row - (kStagedRows - 1);
      if (column >= 0) low += load_shared<float>(staged + staged_offset(row, column));
      if (column + 32 < kStagedPitch) {
        high += load_shared<float>(staged + staged_offset(row, column + 32));
      }
    }
  }
};

/// Distances of 16 rows and 64 columns: number m of warp w is that of the tiles' distance
/// 16 w + m - 63, row minus column.
inline constexpr int kWarpDistances = kRows + 15, kWarpDistancesPitch = 80;

/// Adds the diagonals of a warp's 16 rows and the 32 columns from `first` on, those from column 0
/// before the other ones: number n, of column minus row n - 15, lies at place(n).
template <int kChunk, class Place>
__device__ __forceinline__ void add_diagonals(std::uint32_t staged, int lane, int first,
                                              const float (&gradient)[kChunk][4],
                                              const Place& place) {
  static_assert(2 * kChunk * 8 == kRows);
  auto [low, high] = DiagonalSums(staged, lane, gradient);
  // Where the diagonals' sums are: what is behind the first chunk's is the second one's alone.
  const std::uint32_t own = place(first + lane), behind = place(first + 32 + lane);
  if (first == 0) {
    store_shared(place(kWarpDistances - 1 - lane), 0.0f);
  } else {
    low += load_shared<float>(own);
    if (lane < 15) high += load_shared<float>(behind);
  }
  store_shared(own, low);
  if (lane < 15) store_shared(behind, high);
  __syncwarp();
}

/// Of a block with kCount tiles of queries. Its block_distances() numbers lie in the order of
/// distances: 64 (I - J + key tiles - 1) + n is diagonal n of the tiles I and J. Of what it works
/// with only the launch's own numbers are kept: threads that make dq have no registers left.
template <int kCount>
class TableSums {
  static constexpr int kWarps = kThreads / 32;
  static constexpr std::uint32_t kStagedBytes = kStagedRows * kStagedPitch * 4;

 public:
  /// Of shared memory.
  static constexpr int kBytes =
      kWarps * (static_cast<int>(kStagedBytes) + kCount * kWarpDistancesPitch * 4);

  /// `distances`: block_distances() of every block, in the grid's order. Both outlive it.
  __device__ TableSums(const AttentionShape& shape, float* const& distances, std::uint32_t shared)
      : shape_(shape), distances_(distances), shared_(shared) {}

  /// Seen by all threads after the next __syncthreads.
  __device__ void clear() const {
    float* to = numbers();
    for (std::int64_t n = threadIdx.x; n < block_distances(shape_); n += kThreads) to[n] = 0;
  }

  /// Takes the gradients of the band's chunk from column `first` of a pair of tiles, that from
  /// column 0 before the other one.
  template <int kChunk>
  __device__ __forceinline__ void add(int band, int first,
                                      const float (&gradient)[kChunk][4]) const {
    const std::uint32_t staged = shared_ + static_cast<std::uint32_t>(own_warp()) * kStagedBytes;
    add_diagonals(staged, own_lane(), first, gradient,
                  [&](int n) { return place(band, own_warp(), kWarpDistances - 1 - n); });
  }

  /// Adds what the warps have taken of a pair of tiles, of the bands that took it; `query_tile` is
  /// that of band 0. All threads call it, and __syncthreads before the next pair.
  template <class Which>
  __device__ __forceinline__ void finish(const Which&, int query_tile, int key_tile) const {
    constexpr int kNumbers = (kCount + 1) * kRows - 1,
                  kTurns = (kNumbers + kThreads - 1) / kThreads;
    const int key_tiles = static_cast<int>(tiles_of(shape_.keys));
    float* to = numbers() + std::int64_t{kRows} * (query_tile - key_tile + key_tiles - 1);
    float before[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int n = turn * kThreads + static_cast<int>(threadIdx.x);
      before[turn] = has<Which>(n) ? to[n] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int n = turn * kThreads + static_cast<int>(threadIdx.x);
      if (!has<Which>(n)) continue;
      float sum = 0;
#pragma unroll
      for (int band = Which::kFirst; band < Which::kLast; ++band) {
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) {
          const int m = n - band * kRows - warp * 16;
          if (m >= 0 && m < kWarpDistances) sum += load_shared<float>(place(band, warp, m));
        }
      }
      to[n] = before[turn] + sum;
    }
  }

 private:
  /// Whether the bands have a diagonal `n`, counted from the first one of band 0.
  template <class Which>
  __device__ static bool has(int n) {
    return n >= Which::kFirst * kRows && n < (Which::kLast + 1) * kRows - 1;
  }

  __device__ static int own_warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int own_lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ std::uint32_t place(int band, int warp, int m) const {
    return shared_ + kWarps * kStagedBytes +
           static_cast<std::uint32_t>((band * kWarps + warp) * kWarpDistancesPitch + m) * 4;
  }
  /// The block's.
  __device__ float* numbers() const {
    const std::int64_t block =
        (blockIdx.z * shape_.heads + blockIdx.y) * gridDim.x + std::int64_t{blockIdx.x};
    return distances_ + block * block_distances(shape_);
  }

  const AttentionShape& shape_;
  float* const& distances_;
  std::uint32_t shared_;
};

/// The same of a block with two tiles of keys, whose eight warps have 32 keys and 32 queries each:
/// number m of a warp is that of the distance m - 31 from its first key to its first query.
class KeyTableSums {
  static constexpr int kWarps = 2 * kThreads / 32, kDistances = 63, kPitch = 64;
  static constexpr std::uint32_t kStagedBytes = kStagedRows * kStagedPitch * 4;

 public:
  /// Of shared memory.
  static constexpr int kBytes = kWarps * (static_cast<int>(kStagedBytes) + kPitch * 4);

  __device__ explicit KeyTableSums(std::uint32_t shared) : shared_(shared) {}

  /// Takes the gradients of the warp's 16 keys of a band, of band 0 before those of band 1.
  template <int kChunk>
  __device__ __forceinline__ void add(int band, const float (&gradient)[kChunk][4]) const {
    const int thread = own_thread(), warp = thread / 32, lane = thread % 32;
    auto [low, high] =
        DiagonalSums(shared_ + static_cast<std::uint32_t>(warp) * kStagedBytes, lane, gradient);
    // Of band 0, whose keys come 16 before, the distances are as much larger.
    const int first = band == 0 ? 16 : 0;
    if (band == 0) {
      if (lane < 16) store_shared(place(warp, lane), 0.0f);
    } else {
      low += load_shared<float>(place(warp, lane));
      if (lane < 15) high += load_shared<float>(place(warp, lane + 32));
    }
    store_shared(place(warp, first + lane), low);
    if (lane < 15) store_shared(place(warp, first + 32 + lane), high);
    __syncwarp();
  }

  /// What the warps of the tiles that are seen have taken of the thread's diagonal: those of the
  /// second tile of keys, then, a tile's distance on, those of the first one. All threads call it,
  /// and may use the shared memory for something else then.
  __device__ __forceinline__ float join(bool first_seen, bool second_seen) const {
    const int thread = own_thread();
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const int tile = warp / 4;
      const int m = thread - (1 - tile) * kRows - 32 - warp % 2 * 32 + warp % 4 / 2 * 32;
      if ((tile == 0 ? first_seen : second_seen) && m >= 0 && m < kDistances) {
        sum += load_shared<float>(place(warp, m));
      }
    }
    __syncthreads();
    return sum;
  }
  /// Adds that to a head's block_distances() numbers at `to`, where number `first` is diagonal 0 of
  /// the second tile of keys.
  __device__ static void add_to(float* to, int first, float sum, bool first_seen, bool second_seen,
                                bool atomic) {
    const int thread = own_thread();
    const bool of_first = first_seen && thread >= kRows && thread < 3 * kRows - 1;
    const bool of_second = second_seen && thread < 2 * kRows - 1;
    if (!of_first && !of_second) return;
    if (atomic) {
      atomicAdd(to + (first + thread), sum);
    } else {
      to[first + thread] += sum;
    }
  }

 private:
  __device__ static int own_thread() {
    int thread = static_cast<int>(threadIdx.x);
    compute_anew(thread);
    return thread;
  }
  __device__ std::uint32_t place(int warp, int m) const {
    return shared_ + kWarps * kStagedBytes + static_cast<std::uint32_t>(warp * kPitch + m) * 4;
  }

  std::uint32_t shared_;
};

/// The same of warps that have 16 keys and 64 queries each, as a block in Hopper form has them, in
/// memory of their own: two buffers, of pairs of tiles in turn, so that what is joined of one pair
/// is not overwritten before.
class GroupTableSums {
  static constexpr int kWarps = 2 * kThreads / 32;
  static constexpr std::uint32_t kStagedBytes = kStagedRows * kStagedPitch * 4;

 public:
  /// Of shared memory.
  static constexpr std::uint32_t kBytes = kWarps * (kStagedBytes + 2 * kWarpDistancesPitch * 4);

  __device__ GroupTableSums(std::uint32_t shared, int buffer) : shared_(shared), buffer_(buffer) {}

  /// Takes the gradients of the warp's keys, and of all queries of a tile.
  __device__ __forceinline__ void add(int warp, int lane, const float (&gradient)[8][4]) const {
    const std::uint32_t staged = shared_ + static_cast<std::uint32_t>(warp) * kStagedBytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      add_diagonals(staged, lane, half * 32,
                    reinterpret_cast<const float(&)[4][4]>(gradient[half * 4]),
                    [&](int n) { return place(warp, n); });
    }
  }

  /// What the warps of the tiles that are seen have taken of a thread's diagonal, as
  /// KeyTableSums::join() counts them; after a barrier of all that have.
  __device__ __forceinline__ float join(int thread, bool first_seen, bool second_seen) const {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const int tile = warp / 4;
      const int n = thread - (1 - tile) * kRows - (kRows - 16) + warp % 4 * 16;
      if ((tile == 0 ? first_seen : second_seen) && n >= 0 && n < kWarpDistances) {
        sum += load_shared<float>(place(warp, n));
      }
    }
    return sum;
  }

 private:
  __device__ std::uint32_t place(int warp, int n) const {
    return shared_ + kWarps * kStagedBytes +
           static_cast<std::uint32_t>((buffer_ * kWarps + warp) * kWarpDistancesPitch + n) * 4;
  }

  std::uint32_t shared_;
  int buffer_;
};

}  // namespace phasescope::kernels::cuda
