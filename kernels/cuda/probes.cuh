#pragma once
// Row probes on the device: registers of a thread for its two rows, joined over the four threads of
// a row at the end.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda/tile.cuh"
#include "kernels/units.h"

namespace phasescope::kernels::cuda {

/// What a row ends with: its maximum (log2 units), its normaliser relative to that, the share of
/// its weights beside the sink's, and the sink's weight.
struct RowEnd {
  float maximum, normaliser, share, sink;
};

/// A thread's scores, and then its weights, of one of its rows in a chunk of a tile pair: those of
/// keys column + 8 n + e, e in 0, 1.
template <int kColumns>
struct ChunkRow {
  const float (&numbers)[kColumns / 8][4];
  int half;           // of the two rows that the accumulators hold
  int query, column;  // positions

  __device__ __forceinline__ float at(int n, int e) const { return numbers[n][2 * half + e]; }
  __device__ __forceinline__ float largest() const {
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) top = fmaxf(top, fmaxf(at(n, 0), at(n, 1)));
    return top;
  }
};

/// The windows of RowProbes as a launch has them: 0 where one is not wanted.
struct RowWindows {
  int length[kMaxWindows] = {};
  int longest = 0;

  RowWindows() = default;
  explicit RowWindows(const RowProbes& wanted) {
    for (std::size_t n = 0; n < kMaxWindows; ++n) {
      if (wanted.window_mass[n] == nullptr) continue;
      // Positions are below 2^29 (Limits::positions), and so are distances.
      const std::int64_t most = std::int64_t{1} << 30;
      length[n] = static_cast<int>(std::clamp<std::int64_t>(wanted.windows[n], 0, most));
      longest = std::max(longest, length[n]);
    }
  }

  /// Whether one may hold a pair of the positions and keys first .. first + count - 1: false of
  /// most tiles of a long text.
  __device__ __forceinline__ bool reach(int position, int positions, int key, int keys) const {
    return position - (key + keys - 1) < longest && key - (position + positions - 1) < longest;
  }
};

/// Off: nothing is kept, nothing is computed.
struct NoProbes {
  static constexpr bool kOn = false;

  /// Over a thread's part of a row of a chunk.
  struct Sums {
    float weight = 0;

    __device__ __forceinline__ void add(float p, float, int) { weight += p; }
  };

  __device__ void rescale(float, float, float) {}
  __device__ void write(const RowProbes&, std::int64_t, const RowEnd&, bool) {}
};

/// All row probes, relative to the running maximum m (log2 units) and rescaled with it. A weight
/// takes two products and two sums, and nothing else. What few chunks need is decided once a chunk:
/// windows and a new maximum for all rows of a warp, masked scores for the two of a thread.
struct AllProbes {
  static constexpr bool kOn = true;

  struct Sums {
    float weight = 0;
    float entropy = 0;  // sum p (t - m); NaN where a score is -infinity
    float ahead = 0;    // sum p (key - column)

    /// A weight p, x = t - m, of key column + ahead.
    __device__ __forceinline__ void add(float p, float x, int at) {
      weight += p;
      entropy = fmaf(p, x, entropy);
      ahead = fmaf(p, static_cast<float>(at), ahead);
    }
  };

  float entropy = 0;   // sum p (t - m)
  float distance = 0;  // sum p lambda
  // The first key with the row's largest score so far, in a thread that has one.
  std::int32_t best_key = INT32_MAX;
  float first = -INFINITY;  // score of key 0, in the thread that has it
  float window[kMaxWindows] = {};

  /// The maximum moves by `step` = old - new (0 at the first), sums by factor = 2^step; `sum` is
  /// this thread's part of the normaliser before the move.
  __device__ void rescale(float factor, float step, float sum) {
    entropy = factor * (entropy + step * sum);
    distance *= factor;
    for (float& w : window) w *= factor;
  }

  /// Of a chunk of the first tile of keys, whose scores times `unit` these are.
  template <int kColumns>
  __device__ __forceinline__ void see_first(const ChunkRow<kColumns>& scores, float unit) {
    if (scores.column == 0) first = fmaxf(first, scores.at(0, 0) * unit);
  }

  /// Of a chunk with which the row's maximum rises, to that of these scores. All lanes of a warp
  /// call it.
  template <int kColumns>
  __device__ __forceinline__ void find(const ChunkRow<kColumns>& scores, bool rises) {
    const float top = scores.largest();
    const float largest = quad_max(top);
    if (!rises) return;
    best_key = INT32_MAX;
    if (top != largest) return;  // else the first one among equals, from the last one on
#pragma unroll
    for (int n = kColumns / 8 - 1; n >= 0; --n) {
#pragma unroll
      for (int e = 1; e >= 0; --e) {
        if (scores.at(n, e) == top) best_key = scores.column + 8 * n + e;
      }
    }
  }

  /// Of a chunk's sums; most: the distance of its query from its column 0.
  __device__ __forceinline__ void add_distances(const Sums& sums, float most) {
    distance += fmaf(most, sums.weight, -sums.ahead);
  }

  /// Of a chunk that a window may reach.
  template <int kColumns>
  __device__ __forceinline__ void add_windows(const RowWindows& windows,
                                              const ChunkRow<kColumns>& weights, float sum) {
    const int most = weights.query - weights.column, least = most - (kColumns - 7);
    const int farthest = max(abs(most), abs(least));
    const int nearest = most >= 0 && least <= 0 ? 0 : min(abs(most), abs(least));
    for (int n = 0; n < kMaxWindows; ++n) {
      const int length = windows.length[n];
      if (farthest < length) {
        window[n] += sum;
      } else if (nearest < length) {
        window[n] += sum_within(weights, most, length);
      }
    }
  }

  /// Sums::entropy of weights of which some are 0 because their scores are -infinity: by their
  /// logarithms, which the others' x are to 2^-20.
  template <int kColumns>
  __device__ static float entropy_of(const ChunkRow<kColumns>& weights) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float p = weights.at(n, e);
        if (p > 0) sum = fmaf(p, __log2f(p), sum);
      }
    }
    return sum;
  }

  /// Joins the row's four threads; the first of them writes.
  __device__ void write(const RowProbes& out, std::int64_t at, const RowEnd& end, bool writes) {
    const float m = end.maximum, l = end.normaliser, share = end.share;
    entropy = quad_sum(entropy);
    distance = quad_sum(distance);
    first = quad_max(first);
    for (float& w : window) w = quad_sum(w);
    std::int32_t key = min(best_key, __shfl_xor_sync(0xffffffffu, best_key, 1));
    key = min(key, __shfl_xor_sync(0xffffffffu, key, 2));
    if (!writes) return;
    const bool empty = l == 0;
    const float inverse = empty ? 0 : share / l;
    if (out.entropy) {
      const float of_weights = share == 0 ? 0 : share * (log2f(l) - log2f(share));
      out.entropy[at] = empty ? 0 : kLn2 * (of_weights - entropy * inverse);
    }
    if (out.sink_weight) out.sink_weight[at] = end.sink;
    if (out.max_score) out.max_score[at] = empty ? -INFINITY : m * kLn2;
    if (out.max_key) out.max_key[at] = empty || key == INT32_MAX ? -1 : key;  // NaN alone: none
    if (out.top1_mass) out.top1_mass[at] = empty ? 0 : inverse;
    if (out.first_key_weight) out.first_key_weight[at] = empty ? 0 : exp2f(first - m) * inverse;
    if (out.mean_distance) out.mean_distance[at] = distance * inverse;
    for (int n = 0; n < kMaxWindows; ++n) {
      if (out.window_mass[n]) out.window_mass[n][at] = window[n] * inverse;
    }
  }

 private:
  /// Of the weights with |most - ahead| < length.
  template <int kColumns>
  __device__ static float sum_within(const ChunkRow<kColumns>& weights, int most, int length) {
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (abs(most - (8 * n + e)) < length) sum += weights.at(n, e);
      }
    }
    return sum;
  }
};

}  // namespace phasescope::kernels::cuda
