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
//      where no maximum of a warp's rows rose; rows leave by 16 bytes. With probes from 128
//      channels on by 16 keys at a time: loading the queries again for each costs less than a block
//      of 64 does.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/bands.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/softmax_rows.cuh"

namespace phasescope::kernels::cuda {

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
template <int kValues, DeviceScore Score>
inline constexpr int kForwardBands = kHasFewRegisters<Score>&& kValues <= 128 ? 2 : 1;

/// Shared memory: the queries, then a tile of keys, values and states, entries for each tile of
/// queries, and pieces. Scores that are stored need neither queries nor keys.
template <int D, DeviceScore Score, int kCount, int kValueDim = D>
struct ForwardLayout {
  static constexpr int kStateDim = D;
  static constexpr std::uint32_t kDots = Score::kStored ? 0 : kTileBytes<D>;
  static constexpr std::uint32_t kQueries = 0;
  static constexpr std::uint32_t kKeys = kCount * kDots;
  static constexpr std::uint32_t kValues = kKeys + kDots;
  static constexpr std::uint32_t kStates = kValues + kTileBytes<kValueDim>;
  static constexpr std::uint32_t kEntries = kStates + (Score::kState ? kTileBytes<kStateDim> : 0);
  static constexpr std::uint32_t kPieces =
      kEntries + (Score::kEntries ? kCount * kEntriesBytes : 0);
  static constexpr int kBytes = static_cast<int>(kPieces + Pieces<Score::kPieces>::kBytes);
  /// What is dead when rows are written: of each tile of queries a tile.
  static constexpr std::uint32_t kOut = Score::kStored ? kValues : kQueries;
};

template <typename T, int D, class Probes, DeviceScore Score, int kValueDim>
class BlockForward {
  static constexpr int kCount = kForwardBands<kValueDim, Score>;
  using Layout = ForwardLayout<D, Score, kCount, kValueDim>;
  static constexpr int kStateDim = Layout::kStateDim;
  // Keys taken at a time: half a tile or a quarter where the registers would not do for more.
  static constexpr bool kQuarterTiles =
      Probes::kOn && (kValueDim > 128 || (kValueDim == 128 && kCount == 2));
  static constexpr bool kHalfTiles = Score::kDots == 2 || kValueDim > 128 ||
                                     (kValueDim == 128 ? kCount == 2 || Score::kState
                                                       : kCount == 2 && Probes::kOn);
  static constexpr int kWidth = kQuarterTiles ? kRows / 4 : kHalfTiles ? kRows / 2 : kRows;
  using Scores = float[kWidth / 8][4];
  // What could be computed before the loop over keys would take registers, of which the sums of 256
  // channels leave none, and those of two tiles of 128 none for a table's entries.
  static constexpr bool kComputesAnew = kValueDim > 128 ||
                                        (kValueDim == 128 && kCount == 2 && Score::kEntries);

 public:
  __device__ explicit BlockForward(const ForwardLaunch<Score>& launch)
      : problem_(launch.problem),
        outputs_(launch.outputs),
        windows_(launch.windows),
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
        pieces_(shared_ + Layout::kPieces),
        unit_(launch.problem) {}

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
    copy_tile<T, kValueDim>(shared_ + Layout::kValues, pointer<T>(problem_.v, batch_, kv_head()),
                            problem_.v.row, first, keys, static_cast<int>(shape_.value_dim));
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
      if constexpr (kComputesAnew) compute_anew(shared_, lane_);
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
    accumulate<T, kValueDim, kWidth>(
        bands, weights, shared_ + Layout::kValues, first, lane_,
        [&](int band) -> float(&)[kValueDim / 8][4] { return out_[band]; });
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
        score_dots<kWidth>(problem_, {batch_, head_}, unit_, dots[band],
                           Entries<Score>{entries(band), pieces_}, chunk, s[band]);
        mask_scores<kWidth>(visibility_, real, chunk, position(band) + warp_ * 16,
                            tile * kRows + first, first, s[band]);
      }
    }
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
        raise<kWidth>(chunk_of(band, tile, first), s[band], half, unit_.of, rows_[band]);
        rose = rose || rows_[band].maximum[half] != old[band][half];
      }
    }
    // Of most tiles no row of the warp has its maximum.
    if (__ballot_sync(0xffffffffu, rose) != 0) {
#pragma unroll
      for (int band = Which::kFirst; band < Which::kLast; ++band) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float factor = rescale_row<kWidth>(chunk_of(band, tile, first), s[band],
                                                   rows_[band], half, old[band][half]);
          rescale(band, half, factor);
        }
      }
    }
    bool near = false;
    if constexpr (Probes::kOn) {
      constexpr int kPositions = (Which::kLast - Which::kFirst - 1) * kRows + 16;
      near = windows_.reach(position(Which::kFirst) + warp_ * 16, kPositions, tile * kRows + first,
                            kWidth);
    }
#pragma unroll
    for (int band = Which::kFirst; band < Which::kLast; ++band) {
      weigh<kWidth>(windows_, near, chunk_of(band, tile, first), s[band], unit_.of, rows_[band]);
    }
  }

  __device__ __forceinline__ void rescale(int band, int half, float factor) {
    rescale_sums(out_[band], half, factor);
    if constexpr (Score::kState) rescale_sums(state_, half, factor);
  }

  __device__ KeptRows<kValueDim, Probes> kept_rows() const {
    const int tiles = static_cast<int>(gridDim.x);
    return {kept_, head_ * tiles + (first_ - first_row(problem_)) / kRows};
  }
  __device__ void take_rows() {
    const KeptRows<kValueDim, Probes> kept = kept_rows();
#pragma unroll
    for (int n = 0; n < kValueDim / 2; ++n) out_[0][n / 4][n % 4] = kept.sums[n * kThreads];
    rows_[0] = kept.rows();
  }
  __device__ void keep_rows() const {
    const KeptRows<kValueDim, Probes> kept = kept_rows();
#pragma unroll
    for (int n = 0; n < kValueDim / 2; ++n) kept.sums[n * kThreads] = out_[0][n / 4][n % 4];
    kept.rows() = rows_[0];
  }

  /// A band's rows of all results.
  __device__ __forceinline__ void write(int band) {
    const WarpRows at{
        batch_, head_, query(band) + warp_ * 16,
        warp_,  lane_, shared_ + Layout::kOut + static_cast<std::uint32_t>(band) * Layout::kDots};
    float normaliser[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      normaliser[half] = write_numbers(problem_, outputs_, at, rows_[band], half);
    }
    write_values<T, kValueDim>(problem_, outputs_, at, out_[band], normaliser);
    if constexpr (Score::kState) {
      write_rows<T, kStateDim>(outputs_.out_state, at, shape_.queries, state_, normaliser,
                               static_cast<int>(problem_.state_dim));
    }
  }

  const Problem<Score>& problem_;
  const CudaForwardOutputs& outputs_;
  const RowWindows& windows_;
  float* kept_;
  const AttentionShape& shape_;
  int batch_, head_, first_, warp_, lane_;
  int part_ = 0;
  Visibility visibility_;
  BandTiles<kCount> tiles_;
  std::uint32_t shared_;
  [[no_unique_address]] Pieces<Score::kPieces> pieces_;
  ScoreUnit unit_;
  float row_sum_[2];
  float out_[kCount][kValueDim / 8][4] = {};
  float state_[Score::kState ? kStateDim / 8 : 1][4] = {};
  RowState<Probes> rows_[kCount];
};

template <typename T, int D, class Probes, DeviceScore Score, int kValueDim = D>
__global__ void __launch_bounds__(kThreads)
    attention_forward_kernel(const __grid_constant__ ForwardLaunch<Score> launch) {
  BlockForward<T, D, Probes, Score, kValueDim>(launch).run();
}

}  // namespace phasescope::kernels::cuda
