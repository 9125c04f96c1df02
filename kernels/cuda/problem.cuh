#pragma once
// What every kernel is given, and which pairs of it are visible.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/variants.cuh"

namespace phasescope::kernels::cuda {

/// Inputs of a launch with the score that its kernel is compiled for.
template <DeviceScore Score>
struct Problem {
  AttentionShape shape;  // with a value_dim, never 0
  InputTensor q, k, v, state;
  std::int64_t state_dim = 0;
  Score score;
  float soft_cap = 0;  // log2 units
  const float* sinks = nullptr;
  const std::uint8_t* key_mask = nullptr;
  const std::int32_t* query_documents = nullptr;
  const std::int32_t* key_documents = nullptr;
  const DocumentRange* document_ranges = nullptr;  // as launch_documents() leaves them
  InputTensor gate = {};                           // of the forward pass
  int gate_dim = 0;
};

template <typename T>
__device__ __forceinline__ const T* pointer(const InputTensor& tensor, std::int64_t batch,
                                            std::int64_t head) {
  return static_cast<const T*>(tensor.data) + batch * tensor.batch + head * tensor.head;
}
template <typename T>
__device__ __forceinline__ T* pointer(const OutputTensor& tensor, std::int64_t batch,
                                      std::int64_t head) {
  return static_cast<T*>(tensor.data) + batch * tensor.batch + head * tensor.head;
}

/// The q and k of a part of the pairs.
template <class Score>
__device__ __forceinline__ const InputTensor& q_of(const Problem<Score>& problem,
                                                   [[maybe_unused]] int part) {
  if constexpr (Score::kParts == 2) {
    if (part == kFar) return problem.score.clamp.q;
  }
  return problem.q;
}
template <class Score>
__device__ __forceinline__ const InputTensor& k_of(const Problem<Score>& problem,
                                                   [[maybe_unused]] int part) {
  if constexpr (Score::kParts == 2) {
    if (part == kFar) return problem.score.clamp.k;
  }
  return problem.k;
}

/// A head's sink in log2 units, -inf where there are none.
template <class Score>
__device__ __forceinline__ float sink_of(const Problem<Score>& problem, int head) {
  return problem.sinks ? problem.sinks[head] * kLog2e : -INFINITY;
}
/// A row's log-sum-exp with its head's sink in it, log2 units; -inf for rows that see no key.
__device__ __forceinline__ float lse_with_sink(float lse, float sink) {
  if (sink == -INFINITY || lse == -INFINITY) return lse;
  return fmaxf(lse, sink) + log2f(1 + exp2f(-fabsf(lse - sink)));
}

/// The gate of a row's output: of(channel).
template <typename T>
struct RowGate {
  const std::uint16_t* numbers;
  bool by_channel;

  __device__ RowGate(const InputTensor& gate, int gate_dim, std::int64_t batch, std::int64_t head,
                     std::int64_t row)
      : numbers(pointer<std::uint16_t>(gate, batch, head) + row * gate.row),
        by_channel(gate_dim > 1) {}
  __device__ __forceinline__ float of(int channel) const {
    return Half<T>::low(numbers[by_channel ? channel : 0]);
  }
};

/// The block's batch entry, and the query row its rows are counted from.
template <class Score>
__device__ int batch_of(const Problem<Score>& problem) {
  if constexpr (Score::kStored) {
    return static_cast<int>(problem.score.strip.batch + blockIdx.z);
  } else {
    return static_cast<int>(blockIdx.z);
  }
}
template <class Score>
__device__ int first_row(const Problem<Score>& problem) {
  if constexpr (Score::kStored) {
    return static_cast<int>(problem.score.strip.first);
  } else {
    return 0;
  }
}

/// A stretch of positions from first to last - 1.
struct Stretch {
  int first = 0, last = 0;
};

/// Those of some tiles of keys whose scores a launch has: a strip's.
template <class Score>
__device__ Stretch given_tiles(const Problem<Score>& problem, const Stretch& tiles) {
  if constexpr (Score::kStored) {
    const Strip& strip = problem.score.strip;
    return {max(tiles.first, static_cast<int>(strip.first_key / kRows)),
            min(tiles.last, static_cast<int>(tiles_of(strip.last_key)))};
  } else {
    return tiles;
  }
}

/// Those keys of a tile that exist and are no padding: bit n is the tile's key n.
struct RealKeys {
  std::uint64_t bits;

  __device__ bool none() const { return bits == 0; }
  /// Whether all of first .. first + kCount - 1 are, which the tile has.
  template <int kCount>
  __device__ bool all(int first) const {
    constexpr std::uint64_t kAll = ~std::uint64_t{0} >> (kRows - kCount);
    return (bits >> first & kAll) == kAll;
  }
};

/// The mask of one batch entry: the distances least .. most, and what lies between them. A query's
/// position is its index plus query_offset, so that position - key is the distance.
class Visibility {
 public:
  template <class Score>
  __device__ Visibility(const Problem<Score>& problem, std::int64_t batch)
      : queries_(static_cast<int>(problem.shape.queries)),
        keys_(static_cast<int>(problem.shape.keys)),
        offset_(static_cast<int>(problem.shape.query_offset)),
        // Farther than any key where there is no window.
        most_(static_cast<int>(problem.shape.window > 0
                                   ? min(problem.shape.window, std::int64_t{1} << 30)
                                   : std::int64_t{1} << 30) -
              1),
        least_(problem.shape.causal ? 0 : -most_),
        batch_(static_cast<int>(batch)),
        mask_(problem.key_mask),
        query_documents_(problem.key_documents ? problem.query_documents : nullptr),
        key_documents_(problem.key_documents),
        document_ranges_(problem.key_documents ? problem.document_ranges : nullptr) {}
  /// Of a part of a head's pairs.
  template <class Score>
  __device__ Visibility(const Problem<Score>& problem, std::int64_t batch,
                        [[maybe_unused]] std::int64_t head, [[maybe_unused]] int part)
      : Visibility(problem, batch) {
    if constexpr (Score::kParts == 2) {
      const int limit = problem.score.limit(head);
      if (part == kFar) {
        least_ = max(least_, limit + 1);
      } else {
        most_ = min(most_, limit);
      }
    }
  }

  __device__ bool visible(int position, int key) const {
    return key < keys_ && (!mask_ || mask_[of_keys() + key]) && related(position, key);
  }
  /// The same of a key that exists and is no padding.
  __device__ bool related(int position, int key) const {
    return position - key >= least_ && position - key <= most_ &&
           (!key_documents_ || shares_document(position, key));
  }

  /// Whether all pairs of these (inclusive) positions and keys, of one tile each, are visible, if
  /// the keys exist and are no padding.
  __device__ bool whole(int position, int last_position, int key, int last_key) const {
    return position - last_key >= least_ && last_position - key <= most_ &&
           is_one_document(position - offset_, key);
  }

  /// All lanes of a warp call it: each asks for two of the tile's keys.
  __device__ RealKeys real_keys(int tile) const {
    const int first = tile * kRows, lane = static_cast<int>(threadIdx.x) % 32;
    if (!mask_) {
      const int count = min(keys_ - first, kRows);
      return {count <= 0 ? 0 : ~std::uint64_t{0} >> (kRows - count)};
    }
    const auto is_real = [&](int key) { return key < keys_ && mask_[of_keys() + key]; };
    const unsigned low = __ballot_sync(0xffffffffu, is_real(first + lane));
    const unsigned high = __ballot_sync(0xffffffffu, is_real(first + 32 + lane));
    return {low | static_cast<std::uint64_t>(high) << 32};
  }

  /// Keys outside it are seen from no position in first .. last - 1.
  __device__ Stretch keys(Stretch positions) const {
    return {max(0, positions.first - most_), min(positions.last - least_, keys_)};
  }

  /// Whether a pair of the tiles from query index `query` and from `key` on may be visible: all
  /// kernels leave out the same tiles. False past the last query.
  __device__ bool sees(int query, int key) const {
    if (query >= queries_) return false;
    const Stretch seen = keys({query + offset_, min(query + kRows, queries_) + offset_});
    return key < seen.last && key + kRows > seen.first && may_share_document(query, key);
  }

  /// Query indices outside it see no key in first .. last - 1.
  __device__ Stretch queries(Stretch keys) const {
    return {max(0, keys.first + least_ - offset_), min(keys.last + most_ - offset_, queries_)};
  }

  /// The tiles of keys that the tile of queries from index `query` goes over, and the tiles of
  /// queries for the tile of keys from `key`: [first, last). Between those at the ends some may be
  /// left out (may_share_document). All lanes of a warp call it.
  __device__ Stretch key_tiles(int query) const {
    return in_documents(tiles_with(keys({query + offset_, min(query + kRows, queries_) + offset_})),
                        [&](int tile) { return may_share_document(query, tile * kRows); });
  }
  __device__ Stretch query_tiles(int key) const {
    return in_documents(tiles_with(queries({key, min(key + kRows, keys_)})),
                        [&](int tile) { return may_share_document(tile * kRows, key); });
  }

  /// Whether the tiles that have query index `query` and `key` surely are of one document.
  __device__ bool is_one_document(int query, int key) const {
    if (!document_ranges_) return true;
    const DocumentRange a = range_of_queries(query), b = range_of_keys(key);
    return a.least == a.most && b.least == b.most && a.least == b.least;
  }

  /// False where the tiles from query index `query` and from `key` on surely have no document in
  /// common.
  __device__ bool may_share_document(int query, int key) const {
    if (!document_ranges_) return true;
    const DocumentRange a = range_of_queries(query), b = range_of_keys(key);
    return a.least <= b.most && b.least <= a.most;
  }

 private:
  __device__ static Stretch tiles_with(Stretch rows) {
    return {rows.first / kRows, (rows.last + kRows - 1) / kRows};
  }

  /// Without the tiles at either end for which shares(tile) is false: a lane asks for one tile.
  template <class Shares>
  __device__ Stretch in_documents(Stretch tiles, const Shares& shares) const {
    if (!document_ranges_) return tiles;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto skipped = [&](int tile) {
      const bool inside = tiles.first <= tile && tile < tiles.last;
      const unsigned shared = __ballot_sync(0xffffffffu, inside && shares(tile));
      return shared ? __ffs(static_cast<int>(shared)) - 1 : 32;
    };
    for (int step = 32; step == 32 && tiles.first < tiles.last; tiles.first += step) {
      step = skipped(tiles.first + lane);
    }
    for (int step = 32; step == 32 && tiles.first < tiles.last; tiles.last -= step) {
      step = skipped(tiles.last - 1 - lane);
    }
    return tiles;
  }

  /// Rows of a tile may lie past the last query.
  __device__ bool shares_document(int position, int key) const {
    const std::int64_t query = min(position - offset_, queries_ - 1);
    return query_documents_[std::int64_t{batch_} * queries_ + query] ==
           key_documents_[of_keys() + key];
  }

  /// Where the batch entry's keys begin, and the ranges of the tiles of a query and of a key.
  __device__ std::int64_t of_keys() const { return std::int64_t{batch_} * keys_; }
  __device__ DocumentRange range_of_queries(int query) const { return ranges()[query / kRows]; }
  __device__ DocumentRange range_of_keys(int key) const {
    return ranges()[static_cast<int>(tiles_of(queries_)) + key / kRows];
  }
  __device__ const DocumentRange* ranges() const {
    return document_ranges_ + std::int64_t{batch_} * (tiles_of(queries_) + tiles_of(keys_));
  }

  int queries_, keys_, offset_;
  int most_, least_;
  // Of the whole batch, as a launch has them, so that no thread needs registers for them.
  int batch_;
  const std::uint8_t* mask_;
  const std::int32_t *query_documents_, *key_documents_;
  const DocumentRange* document_ranges_;
};

}  // namespace phasescope::kernels::cuda
