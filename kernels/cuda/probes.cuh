#pragma once
// Row probes on the device: registers of a thread for its two rows, joined over the four threads of
// a row at the end.

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda/tile.cuh"

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
};

/// Off: nothing is kept, nothing is computed.
struct NoProbes {
  static constexpr bool kOn = false;

  __device__ void rescale(float, float, float) {}
  template <int kColumns>
  __device__ void find(const ChunkRow<kColumns>&, float, bool, float, float) {}
  __device__ void add(float, float, int) {}
  template <int kColumns>
  __device__ void add_chunk(const RowProbes&, const ChunkRow<kColumns>&, float) {}
  __device__ void write(const RowProbes&, std::int64_t, const RowEnd&, bool) {}
};

/// All row probes, relative to the running maximum m (log2 units) and rescaled with it. A weight
/// takes two products and two sums; what can be is decided for a thread's part of a chunk at once.
struct AllProbes {
  static constexpr bool kOn = true;

  float entropy = 0;   // sum p (t - m)
  float distance = 0;  // sum p lambda
  // The first key with the row's largest score so far, in a thread that has one.
  std::int32_t best_key = INT32_MAX;
  float first = -INFINITY;  // score of key 0, in the thread that has it
  float window[kMaxWindows] = {};
  float offset = 0;  // of the chunk so far: sum p (key - column)

  /// The maximum moves by `step` = old - new (0 at the first), sums by factor = 2^step; `sum` is
  /// this thread's part of the normaliser before the move.
  __device__ void rescale(float factor, float step, float sum) {
    entropy = factor * (entropy + step * sum);
    distance *= factor;
    for (float& w : window) w *= factor;
  }

  /// Before the weights: the chunk's scores times `unit`. rises: the row's maximum does, to
  /// `largest` of the row's scores in the chunk; of this thread's `top` is the largest.
  template <int kColumns>
  __device__ __forceinline__ void find(const ChunkRow<kColumns>& scores, float unit, bool rises,
                                       float top, float largest) {
    if (scores.column == 0) first = fmaxf(first, scores.at(0, 0) * unit);
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

  /// A weight p, x = t - m, of key column + ahead. Masked ones are 0 at -inf.
  __device__ __forceinline__ void add(float p, float x, int ahead) {
    constexpr float kLeast = -1e30f;
    entropy = fmaf(p, fmaxf(x, kLeast), entropy);
    offset = fmaf(p, static_cast<float>(ahead), offset);
  }

  /// After the weights, whose sum is `sum`. Positions are below 2^29 (Limits::positions), and so
  /// are distances: 32 bits do.
  template <int kColumns>
  __device__ __forceinline__ void add_chunk(const RowProbes& wanted,
                                            const ChunkRow<kColumns>& weights, float sum) {
    const int most = weights.query - weights.column, least = most - (kColumns - 7);
    distance += fmaf(static_cast<float>(most), sum, -offset);
    offset = 0;
    const int farthest = max(abs(most), abs(least));
    const int nearest = most >= 0 && least <= 0 ? 0 : min(abs(most), abs(least));
    for (int n = 0; n < kMaxWindows; ++n) {
      const int length = static_cast<int>(min(wanted.windows[n], std::int64_t{1} << 30));
      if (farthest < length) {
        window[n] += sum;
      } else if (nearest < length) {
        window[n] += sum_within(weights, most, length);
      }
    }
  }

  /// Joins the row's four threads; the first of them writes.
  __device__ void write(const RowProbes& out, std::int64_t at, const RowEnd& end, bool writes) {
    const float m = end.maximum, l = end.normaliser, share = end.share;
    constexpr float kNatural = 0.693147180559945309f;
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
      out.entropy[at] = empty ? 0 : kNatural * (of_weights - entropy * inverse);
    }
    if (out.sink_weight) out.sink_weight[at] = end.sink;
    if (out.max_score) out.max_score[at] = empty ? -INFINITY : m * kNatural;
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
