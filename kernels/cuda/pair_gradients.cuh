#pragma once
// What the backward pass makes of the dot products of a pair of tiles, whatever multiplied them:
// scores and their mask, weights from the saved log-sum-exp, and the gradients of scores and dot
// products from those of weights. A thread holds elements of 16 rows by kWidth columns, in the
// accumulators of mma.sync and of wgmma alike.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/backward_launch.cuh"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

/// The log-sum-exp of a query in log2 units, the sink in it, by which its weights are made; +inf
/// for one that does not exist or sees no key, so that every weight is 0, and where none was saved
/// (sums of scores). `at` is its place among (B, heads, queries).
template <DeviceScore Score>
__device__ __forceinline__ float lse_of_query(const Problem<Score>& problem,
                                              const DeviceSaved& saved, int head, bool exists,
                                              std::int64_t at) {
  const float lse = exists && saved.lse
                        ? lse_with_sink(saved.lse[at] * kLog2e, sink_of(problem, head))
                        : INFINITY;
  return lse == -INFINITY ? INFINITY : lse;
}

/// Scores of a chunk in log2 units, -inf where masked; `row` is the warp's first row in its tile,
/// `first` the chunk's first column.
template <int kWidth, DeviceScore Score, bool kTransposed>
__device__ __forceinline__ void score_pair(const Problem<Score>& problem, const HeadPlace& at,
                                           const Visibility& visibility, int first_key,
                                           const Chunk<kTransposed>& chunk, int row, int first,
                                           const Entries<Score>& entries,
                                           const Dots<kWidth, Score>& dots,
                                           float (&t)[kWidth / 8][4]) {
  score_chunk(problem, at, dots, entries, chunk, t);
  const RealKeys real = visibility.real_keys(first_key / kRows);
  const int first_row = chunk.row + row, last_row = first_row + 15;
  const int column = chunk.column + first, last_column = column + kWidth - 1;
  const bool whole = kTransposed ? real.template all<16>(row) &&
                                       visibility.whole(column, last_column, first_row, last_row)
                                 : real.template all<kWidth>(first) &&
                                       visibility.whole(first_row, last_row, column, last_column);
  if (!whole) mask_chunk<kWidth>(visibility, real, chunk, t);
}

/// The number of an element's query among those of a tile's 64 queries in shared memory.
template <bool kTransposed>
__device__ __forceinline__ float of_query(std::uint32_t numbers, const Chunk<kTransposed>& chunk,
                                          int n, int e) {
  return load_shared<float>(numbers + static_cast<std::uint32_t>(chunk.query_in_tile(n, e)) * 4);
}

/// Weights of scores t; `lse` has lse_of_query() of the tile's queries.
template <int kWidth, bool kTransposed>
__device__ __forceinline__ void weigh_pair(const Chunk<kTransposed>& chunk, std::uint32_t lse,
                                           const float (&t)[kWidth / 8][4],
                                           float (&weight)[kWidth / 8][4]) {
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      weight[n][e] = fast_exp2(t[n][e] - of_query(lse, chunk, n, e));
    }
  }
}

/// The derivative of a soft cap (0: none) at scores t. Where kFolds weights take it, so that it
/// need not be kept.
template <bool kFolds, int kWidth>
__device__ __forceinline__ void differentiate_cap(float cap, const float (&t)[kWidth / 8][4],
                                                  float (&weight)[kWidth / 8][4],
                                                  float (&tangent)[kWidth / 8][4]) {
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      tangent[n][e] = 1;
      if (cap == 0) continue;
      const float share = t[n][e] / cap;
      tangent[n][e] = weight[n][e] == 0 ? 0 : 1 - share * share;
      if constexpr (kFolds) weight[n][e] *= tangent[n][e];
    }
  }
}

/// From d_score, the gradients of weights, to those of scores' entries in its place (natural units)
/// and to those of dot products, before factor(channel). `delta` has those of the tile's queries;
/// inner(n, e, ds) leads a score's gradient to what it was made from, where tokens stand around it.
template <bool kFolds, int kWidth, DeviceScore Score, bool kTransposed, class Inner>
__device__ __forceinline__ void differentiate_pair(
    const Problem<Score>& problem, const HeadPlace& at, const Entries<Score>& entries,
    const Chunk<kTransposed>& chunk, const Dots<kWidth, Score>& dots,
    const float (&weight)[kWidth / 8][4], const float (&tangent)[kWidth / 8][4],
    std::uint32_t delta, const Inner& inner, float (&d_score)[kWidth / 8][4],
    Dots<kWidth, Score>& gradient) {
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float of_row = of_query(delta, chunk, n, e);
      const float p = weight[n][e];
      float ds = p == 0 ? 0 : p * (d_score[n][e] - of_row);
      if constexpr (!kFolds) ds *= tangent[n][e];
      ds = inner(n, e, ds);
      d_score[n][e] = problem.score.entry_gradient(ds, dots.dot[n][e]);
      const float phase = Score::kDots == 2 ? dots.phase[Score::kDots == 2 ? n : 0][e] : 0;
      const float entry = entry_of(problem, at, entries, chunk, n, e);
      const DotGradients d = problem.score.gradient(ds, dots.dot[n][e], phase, entry);
      gradient.dot[n][e] = d.dot;
      if constexpr (Score::kDots == 2) gradient.phase[n][e] = d.phase;
    }
  }
}

}  // namespace phasescope::kernels::cuda
