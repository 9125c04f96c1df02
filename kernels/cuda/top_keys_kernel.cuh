#pragma once
// The largest weights of a row and their keys, after the forward pass and from its log-sum-exp: one
// more q.k product. A block of 64 queries goes over the tiles of keys like the forward pass; the
// scores of a pair of tiles pass through shared memory, where a thread keeps the list of each row.
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. this one: half of the threads wait while a tile's scores are looked through; not yet run.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

/// The largest scores of a row so far and their keys, in shared memory: the order of keys that come
/// does not matter. At first, and where there are fewer, -inf and -1.
class LargestOfRow {
 public:
  /// Of the lists of 64 rows.
  static constexpr int bytes(std::int64_t count) { return static_cast<int>(count) * kRows * 8; }

  __device__ LargestOfRow(std::uint32_t shared, int row, int count)
      : first_(shared + static_cast<std::uint32_t>(row) * 8), count_(count) {
    for (int n = 0; n < count; ++n) put(n, {});
  }

  __device__ void add(float score, int key) {
    const Entry added{score, key};
    if (!added.precedes(last_)) return;
    int n = count_ - 1;
    for (; n > 0 && added.precedes(get(n - 1)); --n) put(n, get(n - 1));
    put(n, added);
    last_ = get(count_ - 1);
  }

  /// From and to memory, of the row in (count, kRows): what earlier strips of keys left.
  __device__ void take(const float* kept) {
    for (int n = 0; n < count_; ++n) put(n, reinterpret_cast<const Entry*>(kept)[n * kRows]);
    if (count_ > 0) last_ = get(count_ - 1);
  }
  __device__ void keep(float* kept) const {
    for (int n = 0; n < count_; ++n) reinterpret_cast<Entry*>(kept)[n * kRows] = get(n);
  }

  __device__ float score(int n) const { return get(n).score; }
  __device__ std::int32_t key(int n) const { return get(n).key; }

 private:
  struct alignas(8) Entry {
    float score = -INFINITY;
    std::int32_t key = -1;

    /// NaN comes before nothing, and -inf not before an empty place.
    __device__ bool precedes(const Entry& other) const {
      return score > other.score || (score == other.score && key < other.key);
    }
  };

  /// Neighbouring rows lie beside each other.
  __device__ std::uint32_t place(int n) const {
    return first_ + static_cast<std::uint32_t>(n * kRows * 8);
  }
  __device__ Entry get(int n) const { return load_shared<Entry>(place(n)); }
  __device__ void put(int n, const Entry& entry) { store_shared(place(n), entry); }

  std::uint32_t first_;
  int count_;
  Entry last_;
};

template <DeviceScore Score>
struct TopKeysLaunch {
  BackwardLaunch<Score> pairs;
  RowProbes rows;
  float* kept;  // as ForwardLaunch's, once the forward pass over all strips has ended
};

/// grid.x tiles of queries (of a strip where scores are stored), grid.y heads, grid.z batch
/// entries.
template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kThreads, kPairBlocks)
    attention_top_keys_kernel(const __grid_constant__ TopKeysLaunch<Score> launch) {
  using Layout = PairLayout<D, Score, false>;
  constexpr auto bytes_with = [](std::int64_t keys) {
    return Layout::kBytesWithPairs + LargestOfRow::bytes(keys);
  };
  static_assert(bytes_with(CudaHeads::kFewTopKeys) <= kCudaSharedBytes);
  static_assert(bytes_with(kMaxTopKeys) <= CudaHeads{D, D}.shared_bytes(true));
  const Problem<Score>& problem = launch.pairs.problem;
  TilePair<T, D, false, Score, false> pair(launch.pairs);
  const int batch = batch_of(problem), head = static_cast<int>(blockIdx.y);
  // The longest rows first.
  const int query = first_row(problem) + static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const int row = static_cast<int>(threadIdx.x), count = static_cast<int>(launch.rows.top_count);
  const bool keeps = row < kRows;
  LargestOfRow largest(shared_memory() + Layout::kBytesWithPairs, row, keeps ? count : 0);
  float* kept = launch.kept;
  if constexpr (Score::kStored) {
    const int block = head * static_cast<int>(gridDim.x) + (query - first_row(problem)) / kRows;
    kept += block * kept_floats(D) + row * 2;
    if (problem.score.strip.first_key > 0) largest.take(kept);
  }
  for (int part = Score::kParts - 1; part >= 0; --part) {
    pair.take_part(part);
    const Visibility visibility(problem, batch, head, part);
    const Stretch tiles = given_tiles(problem, visibility.key_tiles(query));
    pair.fetch_queries(batch, head, query);
    for (int tile = tiles.first; tile < tiles.last; ++tile) {
      const int key = tile * kRows;
      if (!visibility.may_share_document(query, key)) continue;
      pair.fetch_keys(batch, head / pair.group(), key);
      pair.begin(head, query, key);
      pair.store_scores(visibility, query, key);
      __syncthreads();
      // The pitch of the rows is odd: a warp's threads read from different banks.
      for (int column = 0; keeps && column < kRows; ++column) {
        largest.add(pair.stored(row, column), key + column);
      }
    }
    commit_copies();
    wait_copies<0>();
  }
  if constexpr (Score::kStored) {
    if (problem.score.strip.last_key < pair.keys()) {
      largest.keep(kept);
      return;
    }
  }
  if (!keeps || query + row >= pair.queries()) return;
  const std::int64_t first =
      ((batch * problem.shape.heads + head) * problem.shape.queries + query + row) * count;
  const float lse = pair.lse_of_row(row);
  for (int n = 0; n < count; ++n) {
    const std::int32_t key = largest.key(n);
    if (launch.rows.top_key) launch.rows.top_key[first + n] = key;
    if (launch.rows.top_weight) {
      launch.rows.top_weight[first + n] = key < 0 ? 0 : fast_exp2(largest.score(n) - lse);
    }
  }
}

}  // namespace phasescope::kernels::cuda
