#pragma once
// The forward pass in Ampere form: a block of 64 queries of one head, four warps of 16; keys come
// in tiles of 64 through cp.async into two buffers, products are mma.sync 16 x 8 x 16, sums
// float32.
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. this one: two-stage copies, swizzled tiles, online softmax in registers; not yet run.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/probes.cuh"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

template <DeviceScore Score>
struct ForwardLaunch {
  Problem<Score> problem;
  CudaForwardOutputs outputs;
  float* kept = nullptr;  // of stored scores whose keys come in several strips: see KeptRows
};

/// Two rows of a warp's 16 that a thread holds: lane / 4 and that + 8.
template <class Probes>
struct RowState {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // this thread's columns
  Probes probes[2];
};

/// What a block keeps of its rows from one strip of keys to the next: of each thread its sums and
/// its RowState, as they stand in its registers, so that strips change no bit.
template <int D, class Probes>
struct KeptRows {
  float* sums;  // (D / 2, kThreads)

  __device__ KeptRows(float* kept, std::int64_t block)
      : sums(kept + block * kept_floats(D) + threadIdx.x) {}
  __device__ RowState<Probes>& rows() const {
    static_assert(sizeof(RowState<Probes>) <= kRowStateBytes);
    return reinterpret_cast<RowState<Probes>*>(sums - threadIdx.x + D / 2 * kThreads)[threadIdx.x];
  }
};

/// Shared memory: the queries, two stages of keys, values, states and entries, then pieces. Scores
/// that are stored need neither queries nor keys. With states, those of the odd stage lie where the
/// queries were, which are in registers by then: a block has no room for both at 128 channels.
template <int D, DeviceScore Score>
struct ForwardLayout {
  static constexpr int kStateDim = D;
  static constexpr std::uint32_t kStates = Score::kState ? kTileBytes<kStateDim> : 0;
  static constexpr std::uint32_t kDots = Score::kStored ? 0 : kTileBytes<D>;
  static_assert(kStates <= kTileBytes<D>);
  static constexpr std::uint32_t kKeys = 0;
  static constexpr std::uint32_t kValues = kDots;
  static constexpr std::uint32_t kEntries = kValues + kTileBytes<D>;
  static constexpr std::uint32_t kStage = kEntries + (Score::kEntries ? kEntriesBytes : 0);
  static constexpr std::uint32_t kEvenState = kDots + 2 * kStage;
  static constexpr std::uint32_t kPieces = kEvenState + kStates;
  static constexpr int kBytes = static_cast<int>(kPieces + Pieces<Score::kPieces>::kBytes);
};

template <typename T, int D, class Probes, DeviceScore Score>
class BlockForward {
  using Layout = ForwardLayout<D, Score>;
  static constexpr int kStateDim = Layout::kStateDim;
  // Keys taken at a time: half a tile where the registers would not do for more.
  static constexpr int kWidth = D == 128 && (Score::kDots == 2 || Score::kState) ? 32 : kRows;

 public:
  __device__ explicit BlockForward(const ForwardLaunch<Score>& launch)
      : problem_(launch.problem),
        outputs_(launch.outputs),
        kept_(launch.kept),
        shape_(launch.problem.shape),
        batch_(batch_of(launch.problem)),
        head_(static_cast<int>(blockIdx.y)),
        // The longest rows first.
        first_(static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows + first_row(launch.problem)),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        visibility_(launch.problem, batch_),
        queries_(shared_memory()),
        stages_(queries_ + Layout::kDots),
        pieces_(queries_ + Layout::kPieces) {}

  __device__ void run() {
    if constexpr (Score::kStored) {
      if (problem_.score.strip.first_key > 0) take_rows();
    }
    // Far keys first: those of a row come in order.
    for (part_ = Score::kParts - 1; part_ >= 0; --part_) take_part();
    if constexpr (Score::kStored) {
      if (problem_.score.strip.last_key < shape_.keys) {
        keep_rows();
        return;
      }
    }
    write();
  }

 private:
  /// The tiles of keys that the queries see of a part.
  __device__ void take_part() {
    if constexpr (Score::kParts > 1) visibility_ = Visibility(problem_, batch_, head_, part_);
    const Stretch tiles = given_tiles(problem_, visibility_.key_tiles(first_));
    if constexpr (!Score::kStored) {
      const InputTensor& q = q_of(problem_, part_);
      copy_tile<T, D>(queries_, pointer<T>(q, batch_, head_), q.row, first_,
                      static_cast<int>(shape_.queries), channels());
    }
    pieces_.store(problem_.score, head_, first_, static_cast<int>(shape_.queries));
    if constexpr (Score::kState) {
      commit_copies();
      wait_copies<0>();
      __syncthreads();
      load_queries();
      __syncthreads();
    }
    // Those of a strip may begin with one that sees nothing, whose copies no one would wait for.
    if (tiles.first < tiles.last && sees(tiles.first)) fetch(tiles.first);
    commit_copies();
    for (int tile = tiles.first; tile < tiles.last; ++tile) {
      if (tile + 1 < tiles.last && sees(tile + 1)) fetch(tile + 1);
      commit_copies();
      if (!sees(tile)) continue;
      wait_copies<1>();
      __syncthreads();
      if constexpr (!Score::kStored && !Score::kState) {
        if (tile == tiles.first) load_queries();
      }
      pieces_.begin(stage(tile) + Layout::kEntries);
      for (int first = 0; first < kRows; first += kWidth) attend(tile, first);
      __syncthreads();
    }
    wait_copies<0>();
  }

  __device__ int channels() const { return static_cast<int>(shape_.head_dim); }
  __device__ int kv_head() const {
    return head_ / static_cast<int>(shape_.heads / shape_.kv_heads);
  }
  /// Of the first query.
  __device__ int position() const { return first_ + static_cast<int>(shape_.query_offset); }
  /// Whether a tile of those that key_tiles() gave may hold what the queries see.
  __device__ bool sees(int tile) const {
    return visibility_.may_share_document(first_, tile * kRows);
  }
  __device__ std::uint32_t stage(int tile) const {
    return stages_ + static_cast<std::uint32_t>(tile % 2) * Layout::kStage;
  }
  __device__ std::uint32_t state_tile(int tile) const {
    return queries_ + (tile % 2 == 0 ? Layout::kEvenState : 0);
  }

  /// Starts copying what belongs to a tile of keys.
  __device__ void fetch(int tile) {
    const int first = tile * kRows, keys = static_cast<int>(shape_.keys);
    if constexpr (!Score::kStored) {
      const InputTensor& k = k_of(problem_, part_);
      copy_tile<T, D>(stage(tile) + Layout::kKeys, pointer<T>(k, batch_, kv_head()), k.row, first,
                      keys, channels());
    }
    copy_tile<T, D>(stage(tile) + Layout::kValues, pointer<T>(problem_.v, batch_, kv_head()),
                    problem_.v.row, first, keys, channels());
    if constexpr (Score::kState) {
      copy_tile<T, kStateDim>(state_tile(tile), pointer<T>(problem_.state, batch_, kv_head()),
                              problem_.state.row, first, keys,
                              static_cast<int>(problem_.state_dim));
    }
    if constexpr (Score::kEntries) {
      copy_entries(stage(tile) + Layout::kEntries, problem_.score, head_,
                   Chunk<false>::first_distance(position(), first));
    }
  }

  /// The warp's 16 queries as operands, kept in registers.
  __device__ void load_queries() {
#pragma unroll
    for (int d = 0; d < D / 16; ++d) load_operand<D>(queries_, warp_ * 16, d, lane_, q_[d]);
    sum_rows<T, D>(problem_.score, rows(), lane_, row_sum_);
  }
  __device__ auto rows() const {
    return [this](int d, std::uint32_t(&a)[4]) {
#pragma unroll
      for (int r = 0; r < 4; ++r) a[r] = q_[d][r];
    };
  }

  /// Keys first .. first + kWidth - 1 of a tile: scores, running softmax, weighted values.
  __device__ void attend(int tile, int first) {
    const Chunk<false> chunk(position(), tile * kRows, first, warp_, lane_);
    float s[kWidth / 8][4];
    if constexpr (Score::kStored) {
      for_each_stored<kWidth>(problem_.score.strip, head_, first_, tile * kRows, chunk,
                              [&](int n, int e, float t) { s[n][e] = t; });
    } else {
      compute_scores(tile, first, chunk, s);
    }
    soften(chunk, s);
    accumulate<T, D, kWidth>(s, stage(tile) + Layout::kValues, first, lane_, out_);
    if constexpr (Score::kState) {
      accumulate<T, kStateDim, kWidth>(s, state_tile(tile), first, lane_, state_);
    }
  }

  __device__ __forceinline__ void compute_scores(int tile, int first, const Chunk<false>& chunk,
                                                 float (&s)[kWidth / 8][4]) {
    {
      Dots<kWidth, Score> dots;
      multiply_rows<T, D>(problem_.score, rows(), row_sum_, stage(tile) + Layout::kKeys, first,
                          lane_, dots);
      const Entries<Score> entries{stage(tile) + Layout::kEntries, pieces_};
      score_chunk(problem_, {batch_, head_}, dots, entries, chunk, s);
    }
    const int row = position() + warp_ * 16, column = tile * kRows + first;
    if (!visibility_.whole(row, row + 15, column, column + kWidth - 1)) {
      mask_chunk<kWidth>(visibility_, chunk, s);
    }
  }

  /// Scores to weights relative to the running maximum; sums and values so far are rescaled.
  __device__ void soften(const Chunk<false>& chunk, float (&s)[kWidth / 8][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float best = rows_.maximum[half];
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
        best = fmaxf(best, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      }
      best = quad_max(best);
      // Rows without a visible key so far keep -inf; their weights are 0, not NaN.
      const float base = best == -INFINITY ? 0 : best;
      const float old = rows_.maximum[half];
      const float step = old == -INFINITY ? 0 : old - base;
      const float factor = old == -INFINITY ? 0 : fast_exp2(step);
      rows_.probes[half].rescale(factor, step, rows_.sum[half]);
      rows_.maximum[half] = best;
      rows_.sum[half] *= factor;
      rescale<D>(out_, half, factor);
      if constexpr (Score::kState) rescale<kStateDim>(state_, half, factor);
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          const float p = fast_exp2(s[n][e] - base);
          rows_.sum[half] += p;
          rows_.probes[half].add(outputs_.rows, p, s[n][e], base, chunk.row_of(e),
                                 chunk.column_of(n, e));
          s[n][e] = p;
        }
      }
    }
  }

  template <int kDim>
  __device__ static void rescale(float (&sums)[kDim / 8][4], int half, float factor) {
#pragma unroll
    for (int d = 0; d < kDim / 8; ++d) {
      sums[d][2 * half] *= factor;
      sums[d][2 * half + 1] *= factor;
    }
  }

  __device__ KeptRows<D, Probes> kept_rows() const {
    const int tiles = static_cast<int>(gridDim.x);
    return {kept_, head_ * tiles + (first_ - first_row(problem_)) / kRows};
  }
  __device__ void take_rows() {
    const KeptRows<D, Probes> kept = kept_rows();
#pragma unroll
    for (int n = 0; n < D / 2; ++n) out_[n / 4][n % 4] = kept.sums[n * kThreads];
    rows_ = kept.rows();
  }
  __device__ void keep_rows() const {
    const KeptRows<D, Probes> kept = kept_rows();
#pragma unroll
    for (int n = 0; n < D / 2; ++n) kept.sums[n * kThreads] = out_[n / 4][n % 4];
    kept.rows() = rows_;
  }

  __device__ void write() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_ + warp_ * 16 + lane_ / 4 + 8 * half;
      const float l = quad_sum(rows_.sum[half]);
      const bool exists = row < shape_.queries;
      const bool writes = exists && lane_ % 4 == 0;
      const std::int64_t at = (batch_ * shape_.heads + head_) * shape_.queries + row;
      // Of the row's weights and its sink's, the share of the weights.
      const float beside = exp2f(sink_of(problem_, head_) - rows_.maximum[half]);
      const float share = l == 0 ? 1 : 1 / (1 + beside / l);
      const RowEnd end{
          rows_.maximum[half], l, share,
          l == 0 ? (problem_.sinks && beside > 0 ? 1.0f : 0.0f) : 1 / (1 + l / beside)};
      rows_.probes[half].write(outputs_.rows, at, end, writes);
      if (writes && outputs_.lse) {
        outputs_.lse[at] =
            l == 0 ? -INFINITY : (rows_.maximum[half] + log2f(l)) * 0.693147180559945309f;
      }
      if (!exists) continue;
      const float normaliser = l == 0 ? 0 : share / l;
      const auto inverse = [normaliser](int) { return normaliser; };
      write_output(row, half, inverse);
      if constexpr (Score::kState) {
        write_row<T, kStateDim>(
            pointer<T>(outputs_.out_state, batch_, head_) + row * outputs_.out_state.row, state_,
            half, inverse, static_cast<int>(problem_.state_dim), lane_);
      }
    }
  }

  /// A row's averaged values; where there is a gate, first as they are to `ungated`. The gate is
  /// multiplied onto the registers, so that nothing of it lives on while a row is written.
  template <class Inverse>
  __device__ __forceinline__ void write_output(int row, int half, const Inverse& inverse) {
    if (problem_.gate.data != nullptr) {
      if (outputs_.ungated.data != nullptr) write_to(outputs_.ungated, row, half, inverse);
      const RowGate<T> gate(problem_.gate, problem_.gate_dim, batch_, head_, row);
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        const int channel = d * 8 + (lane_ % 4) * 2;
        if (channel >= channels()) continue;
        out_[d][2 * half] *= gate.of(channel);
        out_[d][2 * half + 1] *= gate.of(channel + 1);
      }
    }
    write_to(outputs_.out, row, half, inverse);
  }
  template <class Inverse>
  __device__ __forceinline__ void write_to(const OutputTensor& to, int row, int half,
                                           const Inverse& inverse) {
    write_row<T, D>(pointer<T>(to, batch_, head_) + row * to.row, out_, half, inverse, channels(),
                    lane_);
  }

  const Problem<Score>& problem_;
  const CudaForwardOutputs& outputs_;
  float* kept_;
  const AttentionShape& shape_;
  int batch_, head_, first_, warp_, lane_;
  int part_ = 0;
  Visibility visibility_;
  std::uint32_t queries_, stages_;
  [[no_unique_address]] Pieces<Score::kPieces> pieces_;
  std::uint32_t q_[D / 16][4];
  float row_sum_[2];
  float out_[D / 8][4] = {};
  float state_[Score::kState ? kStateDim / 8 : 1][4] = {};
  RowState<Probes> rows_;
};

template <typename T, int D, class Probes, DeviceScore Score>
__global__ void __launch_bounds__(kThreads)
    attention_forward_kernel(const __grid_constant__ ForwardLaunch<Score> launch) {
  BlockForward<T, D, Probes, Score>(launch).run();
}

}  // namespace phasescope::kernels::cuda
