#pragma once
// FIRE's bias, slope u + intercept in the segment of u = distance[lambda] factor[row]: a head's
// pieces and the factors of 64 queries in shared memory.

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda/mma.cuh"

namespace phasescope::kernels::cuda {

/// What a score without pieces has: its entries are biases already.
template <bool kPieces>
class Pieces {
 public:
  static constexpr std::uint32_t kBytes = 0;

  __device__ explicit Pieces(std::uint32_t) {}
  template <class Score>
  __device__ void store(const Score&, std::int64_t, int, int) const {}
  __device__ void begin(std::uint32_t) const {}
  __device__ __forceinline__ float bias(float entry, int) const { return entry; }
};

template <>
class Pieces<true> {
 public:
  static constexpr std::uint32_t kBytes = (3 * kMostSegments + kRows) * 4;

  __device__ explicit Pieces(std::uint32_t shared) : shared_(shared) {}

  /// Knots and pieces of a head, and the factors of the 64 queries from `first`. Seen by all after
  /// the next __syncthreads.
  template <class Score>
  __device__ void store(const Score& score, std::int64_t head, int first, int queries) const {
    const int n = static_cast<int>(threadIdx.x);
    const FireVariant& fire = score.fire;
    if (n < kMostSegments) {
      const std::int64_t at = head * fire.head_stride + n;
      const bool exists = n < fire.segments;
      put(kKnots, n, n + 1 < fire.segments ? fire.knots[n] : INFINITY);
      put(kSlopes, n, exists ? fire.slope[at] : 0);
      put(kIntercepts, n, exists ? fire.intercept[at] : 0);
    } else {
      // The rows past the last query get its factor, so that factors fall all the same.
      const int row = n - kMostSegments;
      put(kFactors, row, fire.factor[min(first + row, queries - 1)]);
    }
  }

  /// The segments that a tile pair with these entries lies in: u rises with the distance and falls
  /// with the row. Most pairs of tiles lie in one; their scores look for none.
  __device__ void begin(std::uint32_t entries) {
    first_ = knots_below(load_shared<float>(entries) * factor(kRows - 1));
    last_ = knots_below(load_shared<float>(entries + (2 * kRows - 2) * 4) * factor(0));
  }
  __device__ int first() const { return first_; }
  __device__ int last() const { return last_; }

  __device__ __forceinline__ int segment(float u) const {
    int n = first_;
    while (n < last_ && get(kKnots, n) < u) ++n;
    return n;
  }
  __device__ __forceinline__ float bias(float distance, int row) const {
    const float u = distance * factor(row);
    const int n = segment(u);
    return fmaf(get(kSlopes, n), u, get(kIntercepts, n));
  }
  /// d bias / d u.
  __device__ __forceinline__ float slope(float u) const { return get(kSlopes, segment(u)); }
  __device__ __forceinline__ float factor(int row) const { return get(kFactors, row); }

 private:
  enum Array : std::uint32_t {
    kKnots = 0,
    kSlopes = kMostSegments,
    kIntercepts = 2 * kMostSegments,
    kFactors = 3 * kMostSegments
  };
  static_assert(kMostSegments + kRows == kThreads && kMostSegments == 64,
                "store() gives each thread one number of each, knots_below() each lane two knots");

  __device__ float get(Array array, int n) const {
    return load_shared<float>(shared_ + (array + static_cast<std::uint32_t>(n)) * 4);
  }
  __device__ void put(Array array, int n, float value) const {
    store_shared(shared_ + (array + static_cast<std::uint32_t>(n)) * 4, value);
  }

  /// By all lanes of a warp, of one u.
  __device__ int knots_below(float u) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return __popc(__ballot_sync(0xffffffffu, get(kKnots, lane) < u)) +
           __popc(__ballot_sync(0xffffffffu, get(kKnots, lane + 32) < u));
  }

  std::uint32_t shared_;
  int first_ = 0, last_ = 0;
};

}  // namespace phasescope::kernels::cuda
