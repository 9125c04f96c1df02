#pragma once
// What the forward pass makes of dot products, whatever multiplied them: scores and their mask,
// weights relative to a running maximum, probes, and rows of results. A thread holds two rows of a
// warp's 16 (lane / 4 and that + 8), in the accumulators of mma.sync and of wgmma alike.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/probes.cuh"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

/// What a forward pass is given.
template <DeviceScore Score>
struct ForwardLaunch {
  Problem<Score> problem;
  CudaForwardOutputs outputs;
  float* kept = nullptr;  // of stored scores whose keys come in several strips: see KeptRows
  RowWindows windows = RowWindows(outputs.rows);
};

/// A thread's two rows so far.
template <class Probes>
struct RowState {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // this thread's columns
  Probes probes[2];
};

/// Scores in log2 units are those in registers times `of`: of a linear score without a cap, dot
/// products.
struct ScoreUnit {
  bool dots_are_scores = false;
  float of = 1;

  template <DeviceScore Score>
  __device__ explicit ScoreUnit(const Problem<Score>& problem) {
    if constexpr (Score::kLinear) {
      const float multiplier = problem.score.multiplier();
      dots_are_scores = problem.soft_cap == 0 && multiplier > 0;
      if (dots_are_scores) of = multiplier;
    }
  }
};

/// Scores of a chunk in that unit, before the mask.
template <int kWidth, DeviceScore Score>
__device__ __forceinline__ void score_dots(const Problem<Score>& problem, const HeadPlace& at,
                                           const ScoreUnit& unit, const Dots<kWidth, Score>& dots,
                                           const Entries<Score>& entries, const Chunk<false>& chunk,
                                           float (&s)[kWidth / 8][4]) {
  if (Score::kLinear && unit.dots_are_scores) {
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = dots.dot[n][e];
    }
    return;
  }
  score_chunk(problem, at, dots, entries, chunk, s);
}

/// -inf for pairs that the mask leaves out; `row` and `column` are the positions of the warp's
/// first query and of the chunk's first key, which is the tile's key `first`.
template <int kWidth>
__device__ __forceinline__ void mask_scores(const Visibility& visibility, const RealKeys& real,
                                            const Chunk<false>& chunk, int row, int column,
                                            int first, float (&s)[kWidth / 8][4]) {
  const bool whole = real.template all<kWidth>(first) &&
                     visibility.whole(row, row + 15, column, column + kWidth - 1);
  if (!whole) mask_chunk<kWidth>(visibility, real, chunk, s);
}

/// A thread's numbers of one of its rows.
template <int kWidth>
__device__ __forceinline__ ChunkRow<kWidth> row_of(const Chunk<false>& chunk,
                                                   const float (&s)[kWidth / 8][4], int half) {
  return {s, half, chunk.row_of(2 * half), chunk.column_of(0, 0)};
}

/// Raises a row's maximum to that of a chunk.
template <int kWidth, class Probes>
__device__ __forceinline__ void raise(const Chunk<false>& chunk, const float (&s)[kWidth / 8][4],
                                      int half, float unit, RowState<Probes>& row) {
  const float largest = quad_max(row_of<kWidth>(chunk, s, half).largest());
  row.maximum[half] = fmaxf(row.maximum[half], largest * unit);
}

/// What weights are relative to: rows without a visible key so far keep -inf, and their weights
/// are 0, not NaN.
__device__ __forceinline__ float base_of(float maximum) {
  return maximum == -INFINITY ? 0 : maximum;
}

/// A row's numbers from an old maximum to the one of now, which a chunk's scores may have raised;
/// returns the factor of its other sums. All lanes of a warp call it.
template <int kWidth, class Probes>
__device__ __forceinline__ float rescale_row(const Chunk<false>& chunk,
                                             const float (&s)[kWidth / 8][4], RowState<Probes>& row,
                                             int half, float old) {
  if constexpr (Probes::kOn) {
    row.probes[half].find(row_of<kWidth>(chunk, s, half), row.maximum[half] > old);
  }
  const float step = old == -INFINITY ? 0 : old - base_of(row.maximum[half]);
  const float factor = old == -INFINITY ? 0 : fast_exp2(step);
  row.probes[half].rescale(factor, step, row.sum[half]);
  row.sum[half] *= factor;
  return factor;
}
template <int kCount>
__device__ __forceinline__ void rescale_sums(float (&sums)[kCount][4], int half, float factor) {
#pragma unroll
  for (int d = 0; d < kCount; ++d) {
    sums[d][2 * half] *= factor;
    sums[d][2 * half + 1] *= factor;
  }
}

/// A thread's scores of one of its rows to weights relative to `maximum`, and their sums.
template <int kWidth, class Sums>
__device__ __forceinline__ void weigh_row(float (&s)[kWidth / 8][4], int half, float unit,
                                          float maximum, Sums& sums) {
  const float base = base_of(maximum);
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float& number = s[n][2 * half + e];
      const float x = fmaf(number, unit, -base);
      const float p = fast_exp2(x);
      sums.add(p, x, 8 * n + e);
      number = p;
    }
  }
}

/// Both rows' scores to weights, with their sums and probes. near: a window may reach the chunk.
template <int kWidth, class Probes>
__device__ __forceinline__ void weigh(const RowWindows& windows, bool near,
                                      const Chunk<false>& chunk, float (&s)[kWidth / 8][4],
                                      float unit, RowState<Probes>& row) {
  typename Probes::Sums sums[2];
  if constexpr (Probes::kOn) {
    if (chunk.column == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        row.probes[half].see_first(row_of<kWidth>(chunk, s, half), unit);
      }
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    weigh_row<kWidth>(s, half, unit, row.maximum[half], sums[half]);
    row.sum[half] += sums[half].weight;
  }
  if constexpr (Probes::kOn) {
    const float both = sums[0].entropy + sums[1].entropy;
    if (near || both != both) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const ChunkRow<kWidth> weights = row_of<kWidth>(chunk, s, half);
        row.probes[half].add_windows(windows, weights, sums[half].weight);
        if (both != both) sums[half].entropy = Probes::entropy_of(weights);
      }
    }
    const auto most = static_cast<float>(chunk.row_of(0) - chunk.column_of(0, 0));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row.probes[half].entropy += sums[half].entropy;
      row.probes[half].add_distances(sums[half], most + static_cast<float>(8 * half));
    }
  }
}

/// The 16 rows of a warp, from query `first` on, and the tile of shared memory that they leave
/// through, where the warp has its 16 of 64 rows for itself.
struct WarpRows {
  int batch, head, first, warp, lane;
  std::uint32_t tile;
};

/// A row's log-sum-exp and probes; returns what its sums of values are multiplied with.
template <class Probes, DeviceScore Score>
__device__ __forceinline__ float write_numbers(const Problem<Score>& problem,
                                               const CudaForwardOutputs& outputs,
                                               const WarpRows& at, RowState<Probes>& state,
                                               int half) {
  const AttentionShape& shape = problem.shape;
  const int row = at.first + at.lane / 4 + 8 * half;
  const float l = quad_sum(state.sum[half]);
  const bool writes = row < shape.queries && at.lane % 4 == 0;
  const std::int64_t place = (at.batch * shape.heads + at.head) * shape.queries + row;
  // Of the row's weights and its sink's, the share of the weights.
  const float beside = exp2f(sink_of(problem, at.head) - state.maximum[half]);
  const float share = l == 0 ? 1 : 1 / (1 + beside / l);
  const RowEnd end{state.maximum[half], l, share,
                   l == 0 ? (problem.sinks && beside > 0 ? 1.0f : 0.0f) : 1 / (1 + l / beside)};
  state.probes[half].write(outputs.rows, place, end, writes);
  if (writes && outputs.lse) {
    outputs.lse[place] = l == 0 ? -INFINITY : (state.maximum[half] + log2f(l)) * kLn2;
  }
  return l == 0 ? 0 : share / l;
}

template <typename T, int kDim>
__device__ __forceinline__ void write_rows(const OutputTensor& to, const WarpRows& at,
                                           std::int64_t queries, const float (&sums)[kDim / 8][4],
                                           const float (&normaliser)[2], int width) {
  write_through<T, kDim>(at.tile, at.warp, at.lane,
                         pointer<T>(to, at.batch, at.head) + at.first * to.row, to.row,
                         static_cast<int>(queries) - at.first, width, sums,
                         [&](int half) { return normaliser[half]; });
}

template <typename T, int D, DeviceScore Score>
__device__ __forceinline__ void multiply_gate(const Problem<Score>& problem, const WarpRows& at,
                                              float (&sums)[D / 8][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = at.first + at.lane / 4 + 8 * half;
    if (row >= problem.shape.queries) continue;
    const RowGate<T> gate(problem.gate, problem.gate_dim, at.batch, at.head, row);
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      const int channel = d * 8 + (at.lane % 4) * 2;
      if (channel >= problem.shape.value_dim) continue;
      sums[d][2 * half] *= gate.of(channel);
      sums[d][2 * half + 1] *= gate.of(channel + 1);
    }
  }
}

/// Averaged values; where there is a gate, first as they are to `ungated`. The gate is multiplied
/// onto the registers, so that nothing of it lives on while rows are written.
template <typename T, int D, DeviceScore Score>
__device__ __forceinline__ void write_values(const Problem<Score>& problem,
                                             const CudaForwardOutputs& outputs, const WarpRows& at,
                                             float (&sums)[D / 8][4],
                                             const float (&normaliser)[2]) {
  const std::int64_t queries = problem.shape.queries;
  const int channels = static_cast<int>(problem.shape.value_dim);
  if (problem.gate.data != nullptr) {
    if (outputs.ungated.data != nullptr) {
      write_rows<T, D>(outputs.ungated, at, queries, sums, normaliser, channels);
    }
    multiply_gate<T, D>(problem, at, sums);
  }
  write_rows<T, D>(outputs.out, at, queries, sums, normaliser, channels);
}

}  // namespace phasescope::kernels::cuda
