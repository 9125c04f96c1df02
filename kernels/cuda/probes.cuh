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

/// Off: nothing is kept, nothing is computed.
struct NoProbes {
  __device__ void rescale(float, float, float) {}
  __device__ void add(const RowProbes&, float, float, float, int, int) {}
  __device__ void write(const RowProbes&, std::int64_t, const RowEnd&, bool) {}
};

/// All row probes, relative to the running maximum m (log2 units) and rescaled with it.
struct AllProbes {
  float entropy = 0;   // sum p (t - m)
  float distance = 0;  // sum p lambda
  float best = -INFINITY;
  std::int32_t best_key = -1;
  float first = -INFINITY;  // score of key 0, in the thread that has it
  float window[kMaxWindows] = {};

  /// The maximum moves by `step` = old - new (0 at the first), sums by factor = 2^step; `sum` is
  /// this thread's part of the normaliser before the move.
  __device__ void rescale(float factor, float step, float sum) {
    entropy = factor * (entropy + step * sum);
    distance *= factor;
    for (float& w : window) w *= factor;
  }

  /// Positions are below 2^29 (Limits::positions), and so are distances: 32 bits do.
  __device__ void add(const RowProbes& wanted, float p, float t, float m, int query, int key) {
    if (t == -INFINITY) return;
    entropy += p * (t - m);
    const int lambda = query - key;
    distance += p * static_cast<float>(lambda);
    if (t > best) {
      best = t;
      best_key = key;
    }
    if (key == 0) first = t;
    for (int n = 0; n < kMaxWindows; ++n) {
      if (std::int64_t{abs(lambda)} < wanted.windows[n]) window[n] += p;
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
    const float top = quad_max(best);
    std::int32_t key = best == top && best_key >= 0 ? best_key : INT32_MAX;
    key = min(key, __shfl_xor_sync(0xffffffffu, key, 1));
    key = min(key, __shfl_xor_sync(0xffffffffu, key, 2));
    if (!writes) return;
    const bool empty = l == 0;
    const float inverse = empty ? 0 : share / l;
    if (out.entropy) {
      const float of_weights = share == 0 ? 0 : share * (log2f(l) - log2f(share));
      out.entropy[at] = empty ? 0 : kNatural * (of_weights - entropy * inverse);
    }
    if (out.sink_weight) out.sink_weight[at] = end.sink;
    if (out.max_score) out.max_score[at] = empty ? -INFINITY : top * kNatural;
    if (out.max_key) out.max_key[at] = empty || key == INT32_MAX ? -1 : key;  // NaN alone: none
    if (out.top1_mass) out.top1_mass[at] = empty ? 0 : exp2f(top - m) * inverse;
    if (out.first_key_weight) out.first_key_weight[at] = empty ? 0 : exp2f(first - m) * inverse;
    if (out.mean_distance) out.mean_distance[at] = distance * inverse;
    for (int n = 0; n < kMaxWindows; ++n) {
      if (out.window_mass[n]) out.window_mass[n][at] = window[n] * inverse;
    }
  }
};

}  // namespace phasescope::kernels::cuda
