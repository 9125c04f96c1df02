#pragma once
// What every kernel is given, and which pairs of it are visible.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/variants.cuh"

namespace phasescope::kernels::cuda {

/// Inputs of a launch with the score that its kernel is compiled for.
template <DeviceScore Score>
struct Problem {
  AttentionShape shape;
  CudaTensor q, k, v, state;
  std::int64_t state_dim = 0;
  Score score;
  float soft_cap = 0;  // log2 units
  const std::uint8_t* key_mask = nullptr;
  const std::int32_t* query_documents = nullptr;
  const std::int32_t* key_documents = nullptr;
};

template <typename T>
__device__ __forceinline__ T* pointer(const CudaTensor& tensor, std::int64_t batch,
                                      std::int64_t head) {
  return static_cast<T*>(tensor.data) + batch * tensor.batch + head * tensor.head;
}

/// The block's batch entry, and the query row its rows are counted from.
template <class Score>
__device__ int batch_of(const Problem<Score>& problem) {
  if constexpr (Score::kStored) {
    return static_cast<int>(problem.score.strip.batch);
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

/// Those of some keys whose scores a launch has: a strip's.
template <class Score>
__device__ Stretch given_keys(const Problem<Score>& problem, const Stretch& keys) {
  if constexpr (Score::kStored) {
    const Strip& strip = problem.score.strip;
    return {max(keys.first, static_cast<int>(strip.first_key)),
            min(keys.last, static_cast<int>(strip.last_key))};
  } else {
    return keys;
  }
}

/// The mask of one batch entry. A query's position is its index plus query_offset, so that position
/// - key is the distance.
class Visibility {
 public:
  template <class Score>
  __device__ Visibility(const Problem<Score>& problem, std::int64_t batch)
      : queries_(static_cast<int>(problem.shape.queries)),
        keys_(static_cast<int>(problem.shape.keys)),
        offset_(static_cast<int>(problem.shape.query_offset)),
        causal_(problem.shape.causal),
        // Longer than any distance where there is no window.
        window_(problem.shape.window > 0
                    ? static_cast<int>(min(problem.shape.window, std::int64_t{1} << 30))
                    : 1 << 30),
        mask_(problem.key_mask ? problem.key_mask + batch * problem.shape.keys : nullptr),
        query_documents_(problem.key_documents
                             ? problem.query_documents + batch * problem.shape.queries
                             : nullptr),
        key_documents_(problem.key_documents ? problem.key_documents + batch * problem.shape.keys
                                             : nullptr) {}

  __device__ bool visible(int position, int key) const {
    return key < keys_ && (!causal_ || key <= position) && abs(position - key) < window_ &&
           (!mask_ || mask_[key]) && (!key_documents_ || shares_document(position, key));
  }

  /// Whether all pairs of these (inclusive) positions and keys are visible.
  __device__ bool whole(int position, int last_position, int key, int last_key) const {
    return last_key < keys_ && (!causal_ || last_key <= position) &&
           last_position - key < window_ && last_key - position < window_ && !mask_ &&
           !key_documents_;
  }

  /// Keys outside it are seen from no position in first .. last - 1.
  __device__ Stretch keys(Stretch positions) const {
    const int last = causal_ ? positions.last : positions.last + window_ - 1;
    return {max(0, positions.first - window_ + 1), min(last, keys_)};
  }

  /// Whether a pair of the tiles from query index `query` and from `key` on may be visible: all
  /// kernels leave out the same tiles.
  __device__ bool sees(int query, int key) const {
    const Stretch seen = keys({query + offset_, min(query + kRows, queries_) + offset_});
    return key < seen.last && key + kRows > seen.first;
  }

  /// Query indices outside it see no key in first .. last - 1.
  __device__ Stretch queries(Stretch keys) const {
    const int first = causal_ ? keys.first : keys.first - window_ + 1;
    return {max(0, first - offset_), min(keys.last + window_ - 1 - offset_, queries_)};
  }

 private:
  /// Rows of a tile may lie past the last query.
  __device__ bool shares_document(int position, int key) const {
    return query_documents_[min(position - offset_, queries_ - 1)] == key_documents_[key];
  }

  int queries_, keys_, offset_;
  bool causal_;
  int window_;
  const std::uint8_t* mask_;
  const std::int32_t *query_documents_, *key_documents_;
};

}  // namespace phasescope::kernels::cuda
