#pragma once
// The forward pass in Ampere form: a block of 64 or 128 queries of one head, four warps with 16 of
// each 64; keys come in tiles of 64 through cp.async, products are mma.sync 16 x 8 x 16, sums
// float32.
//
// Ladder of versions (gains are measured on a device, none has been so far; what is counted without
// one is in docs/cuda.md):
//   1. 64 queries a block, two stages of keys and values, online softmax in registers.
//   2. this one: 128 queries a block where the registers do for them, so that what is loaded of a
//      tile feeds four products; queries from shared memory; values come while the scores are
//      computed and the next keys while values are averaged, in groups of their own; no rescaling
//      where no maximum of a warp's rows rose; rows leave by 16 bytes.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/bands.cuh"
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

/// Tiles of 64 queries that a block takes: two where a thread has registers for the sums of four
/// rows.
template <int D, class Probes, DeviceScore Score>
inline constexpr int kForwardBands = kHasFewRegisters<Score> && (D == 64 || !Probes::kOn) ? 2 : 1;

/// Shared memory: the queries, then a tile of keys, values and states, entries for each tile of
/// queries, and pieces. Scores that are stored need neither queries nor keys.
template <int D, DeviceScore Score, int kCount>
struct ForwardLayout {
  static constexpr int kStateDim = D;
  static constexpr std::uint32_t kDots = Score::kStored ? 0 : kTileBytes<D>;
  static constexpr std::uint32_t kQueries = 0;
  static constexpr std::uint32_t kKeys = kCount * kDots;
  static constexpr std::uint32_t kValues = kKeys + kDots;
  static constexpr std::uint32_t kStates = kValues + kTileBytes<D>;
  static constexpr std::uint32_t kEntries = kStates + (Score::kState ? kTileBytes<kStateDim> : 0);
  static constexpr std::uint32_t kPieces =
      kEntries + (Score::kEntries ? kCount * kEntriesBytes : 0);
  static constexpr int kBytes = static_cast<int>(kPieces + Pieces<Score::kPieces>::kBytes);
  /// What is dead when rows are written: of each tile of queries a tile.
  static constexpr std::uint32_t kOut = Score::kStored ? kValues : kQueries;
};

template <typename T, int D, class Probes, DeviceScore Score>
class BlockForward {
  static constexpr int kCount = kForwardBands<D, Probes, Score>;
  using Layout = ForwardLayout<D, Score, kCount>;
  static constexpr int kStateDim = Layout::kStateDim;
  // Keys taken at a time: half a tile where the registers would not do for more.
  static constexpr bool kHalfTiles =
      Score::kDots == 2 || (D == 128 ? kCount == 2 || Score::kState : kCount == 2 && Probes::kOn);
  static constexpr int kWidth = kHalfTiles ? 32 : kRows;
  using Scores = float[kWidth / 8][4];

 public:
  __device__ explicit BlockForward(const ForwardLaunch<Score>& launch)
      : problem_(launch.problem),
        outputs_(launch.outputs),
        kept_(launch.kept),
        shape_(launch.problem.shape),
        batch_(batch_of(launch.problem)),
        head_(static_cast<int>(blockIdx.y)),
        // The longest rows first.
        first_(static_cast<int>(gridDim.x - 1 - blockIdx.x) * (kCount * kRows) +
               first_row(launch.problem)),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        visibility_(launch.problem, batch_),
        tiles_(launch.problem, visibility_, first_),
        shared_(shared_memory()),
        pieces_(shared_ + Layout::kPieces) {
    if constexpr (Score::kLinear) {
      const float multiplier = problem_.score.multiplier();
      dots_are_scores_ = problem_.soft_cap == 0 && multiplier > 0;
      if (dots_are_scores_) unit_ = multiplier;
    }
  }

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
    __syncthreads();
#pragma unroll
    for (int band = 0; band < kCount; ++band) write(band);
  }

 private:
  /// The tiles of keys that the queries see of a part.
  __device__ void take_part() {
    if constexpr (Score::kParts > 1) {
      visibility_ = Visibility(problem_, batch_, head_, part_);
      tiles_ = BandTiles<kCount>(problem_, visibility_, first_);
    }
    copy_queries();
    pieces_.store(problem_.score, head_, first_, static_cast<int>(shape_.queries));
    const int last = tiles_.end();
    int tile = tiles_.begin(visibility_);
    if (tile < last) fetch_keys(tile);
    commit_copies();
    bool begun = false;
    while (tile < last) {
      const int following = tiles_.next(visibility_, tile + 1);
      wait_copies<0>();
      __syncthreads();
      fetch_values(tile);
      commit_copies();
      if (!begun) sum_rows<T, D>(problem_.score, rows_of_first(), lane_, row_sum_);
      begun = true;
      pieces_.begin(shared_ + Layout::kEntries);
      tiles_.with(visibility_, tile, [&](const auto& bands) { attend(bands, tile, following); });
      tile = following;
    }
    wait_copies<0>();
  }

  __device__ int channels() const { return static_cast<int>(shape_.head_dim); }
  __device__ int kv_head() const {
    return head_ / static_cast<int>(shape_.heads / shape_.kv_heads);
  }
  /// The first query of a band, and its position.
  __device__ int query(int band) const { return tiles_.query_of(band); }
  __device__ int position(int band) const {
    return query(band) + static_cast<int>(shape_.query_offset);
  }

  __device__ void copy_queries() {
    if constexpr (!Score::kStored) {
#pragma unroll
      for (int band = 0; band < kCount; ++band) {
        const InputTensor& q = q_of(problem_, part_);
        copy_tile<T, D>(queries(band), pointer<T>(q, batch_, head_), q.row, query(band),
                        static_cast<int>(shape_.queries), channels());
      }
    }
  }
  __device__ std::uint32_t queries(int band) const {
    return shared_ + Layout::kQueries + static_cast<std::uint32_t>(band) * Layout::kDots;
  }
  __device__ std::uint32_t entries(int band) const {
    return shared_ + Layout::kEntries + static_cast<std::uint32_t>(band) * kEntriesBytes;
  }

  /// Starts copying what the scores of a tile of keys need, and what they are averaged over.
  __device__ void fetch_keys(int tile) {
    if constexpr (!Score::kStored) {
      const InputTensor& k = k_of(problem_, part_);
      copy_tile<T, D>(shared_ + Layout::kKeys, pointer<T>(k, batch_, kv_head()), k.row,
                      tile * kRows, static_cast<int>(shape_.keys), channels());
    }
    if constexpr (Score::kEntries) {
#pragma unroll
      for (int band = 0; band < kCount; ++band) {
        copy_entries(entries(band), problem_.score, head_,
                     Chunk<false>::first_distance(position(band), tile * kRows));
      }
    }
  }
  __device__ void fetch_values(int tile) {
    const int first = tile * kRows, keys = static_cast<int>(shape_.keys);
    copy_tile<T, D>(shared_ + Layout::kValues, pointer<T>(problem_.v, batch_, kv_head()),
                    problem_.v.row, first, keys, channels());
    if constexpr (Score::kState) {
      copy_tile<T, kStateDim>(shared_ + Layout::kStates,
                              pointer<T>(problem_.state, batch_, kv_head()), problem_.state.row,
                              first, keys, static_cast<int>(problem_.state_dim));
    }
  }

  /// The warp's 16 queries of a band as operands.
  __device__ auto rows() const {
    return [this](int band, int d, std::uint32_t(&a)[4]) {
      load_operand<D>(queries(band), warp_ * 16, d, lane_, a);
    };
  }
  __device__ auto rows_of_first() const {
    return [this](int d, std::uint32_t(&a)[4]) { rows()(0, d, a); };
  }

  /// A tile that is there. following: whose keys are fetched as soon as those of this one are read.
  template <class Which>
  __device__ __forceinline__ void attend(const Which& bands, int tile, int following) {
#pragma unroll 1
    for (int first = 0; first < kRows; first += kWidth) {
      Scores s[Which::kLast];
      compute_scores(bands, tile, first, s);
      // The tile's values are there; and when its scores are done, its keys make room.
      const bool begins = first == 0, ends = first + kWidth == kRows;
      if (begins) wait_copies<0>();
      if (begins || ends) __syncthreads();
      if (ends) {
        if (following < tiles_.end()) fetch_keys(following);
        commit_copies();
      }
      soften(bands, tile, first, s);
      average(bands, first, s);
    }
  }

  template <class Which>
  __device__ __forceinline__ void average(const Which& bands, int first,
                                          const Scores (&s)[Which::kLast]) {
    const auto weights = [&](int band) -> const Scores& { return s[band]; };
    accumulate<T, D, kWidth>(bands, weights, shared_ + Layout::kValues, first, lane_,
                             [&](int band) -> float(&)[D / 8][4] { return out_[band]; });
    if constexpr (Score::kState) {
      accumulate<T, kStateDim, kWidth>(bands, weights, shared_ + Layout::kStates, first, lane_,
                                       [&](int) -> float(&)[kStateDim / 8][4] { return state_; });
    }
  }

  __device__ Chunk<false> chunk_of(int band, int tile, int first) const {
    return {position(band), tile * kRows, first, warp_, lane_};
  }

  /// Scores of keys first .. first + kWidth - 1 of a tile in units of unit_, -inf where masked.
  template <class Which>
  __device__ __forceinline__ void compute_scores(const Which& bands, int tile, int first,
                                                 Scores (&s)[Which::kLast]) {
    if constexpr (Score::kStored) {
      for_each_stored<kWidth>(problem_.score.strip, head_, first_, tile * kRows,
                              chunk_of(0, tile, first),
                              [&](int n, int e, float t) { s[0][n][e] = t; });
    } else {
      Dots<kWidth, Score> dots[Which::kLast];
      multiply_rows<T, D, kWidth>(
          problem_.score, bands, rows(), [&](int) -> const float(&)[2] { return row_sum_; },
          shared_ + Layout::kKeys, first, lane_,
          [&](int band) -> Dots<kWidth, Score>& { return dots[band]; });
      const RealKeys real = visibility_.real_keys(tile);
#pragma unroll
      for (int band = Which::kFirst; band < Which::kLast; ++band) {
        const Chunk<false> chunk = chunk_of(band, tile, first);
        score_dots(dots[band], band, chunk, s[band]);
        const int row = position(band) + warp_ * 16, column = tile * kRows + first;
        const bool whole = real.template all<kWidth>(first) &&
                           visibility_.whole(row, row + 15, column, column + kWidth - 1);
        if (!whole) mask_chunk<kWidth>(visibility_, real, chunk, s[band]);
      }
    }
  }
  __device__ __forceinline__ void score_dots(const Dots<kWidth, Score>& dots, int band,
                                             const Chunk<false>& chunk, Scores& s) {
    if (Score::kLinear && dots_are_scores_) {
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] = dots.dot[n][e];
      }
      return;
    }
    const Entries<Score> of_band{entries(band), pieces_};
    score_chunk(problem_, {batch_, head_}, dots, of_band, chunk, s);
  }

  /// Scores to weights relative to the running maximum; sums and values so far are rescaled.
  template <class Which>
  __device__ __forceinline__ void soften(const Which&, int tile, int first,
                                         Scores (&s)[Which::kLast]) {
    float old[Which::kLast][2];
    bool rose = false;
#pragma unroll
    for (int band = Which::kFirst; band < Which::kLast; ++band) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        old[band][half] = rows_[band].maximum[half];
        raise(chunk_of(band, tile, first), s[band], half, rows_[band]);
        rose = rose || rows_[band].maximum[half] != old[band][half];
      }
    }
    // Of most tiles no row of the warp has its maximum.
    if (__ballot_sync(0xffffffffu, rose) != 0) {
#pragma unroll
      for (int band = Which::kFirst; band < Which::kLast; ++band) {
#pragma unroll
        for (int half = 0; half < 2; ++half) rescale(band, half, old[band][half]);
      }
    }
#pragma unroll
    for (int band = Which::kFirst; band < Which::kLast; ++band) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        weigh(chunk_of(band, tile, first), s[band], half, rows_[band]);
      }
    }
  }

  /// A thread's numbers of one of its rows.
  __device__ ChunkRow<kWidth> row_of(const Chunk<false>& chunk, const Scores& s, int half) const {
    return {s, half, chunk.row_of(2 * half), chunk.column_of(0, 0)};
  }

  /// Raises a row's maximum to that of a chunk.
  __device__ __forceinline__ void raise(const Chunk<false>& chunk, const Scores& s, int half,
                                        RowState<Probes>& row) const {
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    }
    row.probes[half].find(row_of(chunk, s, half), unit_, top);
    row.maximum[half] = fmaxf(row.maximum[half], quad_max(top) * unit_);
  }

  /// What weights are relative to: rows without a visible key so far keep -inf, and their weights
  /// are 0, not NaN.
  __device__ static float base_of(float maximum) { return maximum == -INFINITY ? 0 : maximum; }

  /// Rows' sums from an old maximum to the one of now.
  __device__ __forceinline__ void rescale(int band, int half, float old) {
    RowState<Probes>& row = rows_[band];
    const float step = old == -INFINITY ? 0 : old - base_of(row.maximum[half]);
    const float factor = old == -INFINITY ? 0 : fast_exp2(step);
    row.probes[half].rescale(factor, step, row.sum[half]);
    row.sum[half] *= factor;
    rescale<D>(out_[band], half, factor);
    if constexpr (Score::kState) rescale<kStateDim>(state_, half, factor);
  }
  template <int kDim>
  __device__ static void rescale(float (&sums)[kDim / 8][4], int half, float factor) {
#pragma unroll
    for (int d = 0; d < kDim / 8; ++d) {
      sums[d][2 * half] *= factor;
      sums[d][2 * half + 1] *= factor;
    }
  }

  /// A row's scores to weights, with its sum and probes.
  __device__ __forceinline__ void weigh(const Chunk<false>& chunk, Scores& s, int half,
                                        RowState<Probes>& row) const {
    const float base = base_of(row.maximum[half]);
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& number = s[n][2 * half + e];
        const float x = fmaf(number, unit_, -base);
        const float p = fast_exp2(x);
        sum += p;
        row.probes[half].add(p, x, 8 * n + e);
        number = p;
      }
    }
    row.sum[half] += sum;
    row.probes[half].add_chunk(outputs_.rows, row_of(chunk, s, half), sum);
  }

  __device__ KeptRows<D, Probes> kept_rows() const {
    const int tiles = static_cast<int>(gridDim.x);
    return {kept_, head_ * tiles + (first_ - first_row(problem_)) / kRows};
  }
  __device__ void take_rows() {
    const KeptRows<D, Probes> kept = kept_rows();
#pragma unroll
    for (int n = 0; n < D / 2; ++n) out_[0][n / 4][n % 4] = kept.sums[n * kThreads];
    rows_[0] = kept.rows();
  }
  __device__ void keep_rows() const {
    const KeptRows<D, Probes> kept = kept_rows();
#pragma unroll
    for (int n = 0; n < D / 2; ++n) kept.sums[n * kThreads] = out_[0][n / 4][n % 4];
    kept.rows() = rows_[0];
  }

  /// A band's rows of all results.
  __device__ __forceinline__ void write(int band) {
    float normaliser[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) normaliser[half] = write_numbers(band, half);
    write_output(band, normaliser);
    if constexpr (Score::kState) {
      write_to<kStateDim>(outputs_.out_state, band, state_, normaliser,
                          static_cast<int>(problem_.state_dim));
    }
  }

  /// A row's log-sum-exp and probes; returns what its sums of values are multiplied with.
  __device__ __forceinline__ float write_numbers(int band, int half) {
    RowState<Probes>& state = rows_[band];
    const int row = query(band) + warp_ * 16 + lane_ / 4 + 8 * half;
    const float l = quad_sum(state.sum[half]);
    const bool writes = row < shape_.queries && lane_ % 4 == 0;
    const std::int64_t at = (batch_ * shape_.heads + head_) * shape_.queries + row;
    // Of the row's weights and its sink's, the share of the weights.
    const float beside = exp2f(sink_of(problem_, head_) - state.maximum[half]);
    const float share = l == 0 ? 1 : 1 / (1 + beside / l);
    const RowEnd end{state.maximum[half], l, share,
                     l == 0 ? (problem_.sinks && beside > 0 ? 1.0f : 0.0f) : 1 / (1 + l / beside)};
    state.probes[half].write(outputs_.rows, at, end, writes);
    if (writes && outputs_.lse) {
      outputs_.lse[at] =
          l == 0 ? -INFINITY : (state.maximum[half] + log2f(l)) * 0.693147180559945309f;
    }
    return l == 0 ? 0 : share / l;
  }

  /// Averaged values; where there is a gate, first as they are to `ungated`. The gate is multiplied
  /// onto the registers, so that nothing of it lives on while rows are written.
  __device__ __forceinline__ void write_output(int band, const float (&normaliser)[2]) {
    if (problem_.gate.data != nullptr) {
      if (outputs_.ungated.data != nullptr) {
        write_to<D>(outputs_.ungated, band, out_[band], normaliser, channels());
      }
      multiply_gate(band);
    }
    write_to<D>(outputs_.out, band, out_[band], normaliser, channels());
  }
  __device__ __forceinline__ void multiply_gate(int band) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = query(band) + warp_ * 16 + lane_ / 4 + 8 * half;
      if (row >= shape_.queries) continue;
      const RowGate<T> gate(problem_.gate, problem_.gate_dim, batch_, head_, row);
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        const int channel = d * 8 + (lane_ % 4) * 2;
        if (channel >= channels()) continue;
        out_[band][d][2 * half] *= gate.of(channel);
        out_[band][d][2 * half + 1] *= gate.of(channel + 1);
      }
    }
  }
  template <int kDim>
  __device__ __forceinline__ void write_to(const OutputTensor& to, int band,
                                           const float (&sums)[kDim / 8][4],
                                           const float (&normaliser)[2], int width) {
    const int row = query(band) + warp_ * 16;
    const std::uint32_t tile =
        shared_ + Layout::kOut + static_cast<std::uint32_t>(band) * Layout::kDots;
    write_through<T, kDim>(tile, warp_, lane_, pointer<T>(to, batch_, head_) + row * to.row, to.row,
                           static_cast<int>(shape_.queries) - row, width, sums,
                           [&](int half) { return normaliser[half]; });
  }

  const Problem<Score>& problem_;
  const CudaForwardOutputs& outputs_;
  float* kept_;
  const AttentionShape& shape_;
  int batch_, head_, first_, warp_, lane_;
  int part_ = 0;
  Visibility visibility_;
  BandTiles<kCount> tiles_;
  std::uint32_t shared_;
  [[no_unique_address]] Pieces<Score::kPieces> pieces_;
  // Scores in log2 units are those in registers times unit_: of a linear score, dot products.
  bool dots_are_scores_ = false;
  float unit_ = 1;
  float row_sum_[2];
  float out_[kCount][D / 8][4] = {};
  float state_[Score::kState ? kStateDim / 8 : 1][4] = {};
  RowState<Probes> rows_[kCount];
};

template <typename T, int D, class Probes, DeviceScore Score>
__global__ void __launch_bounds__(kThreads)
    attention_forward_kernel(const __grid_constant__ ForwardLaunch<Score> launch) {
  BlockForward<T, D, Probes, Score>(launch).run();
}

}  // namespace phasescope::kernels::cuda
