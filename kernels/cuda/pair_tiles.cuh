#pragma once
// The tiles of queries and keys of a pair in shared memory: where they lie, how they come there
// stage by stage, and as what operands they leave it. What is computed of them is in tile_pair.cuh.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/backward_launch.cuh"
#include "kernels/cuda/pair_gradients.cuh"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

/// Numbers from one row of a pair's array to the next. Neighbouring threads walk neighbouring
/// diagonals, which start a row (or a column) apart: an odd pitch puts their numbers into 32
/// different banks, where one of 64 puts them all into one. Of the odd ones 69 also has the least
/// conflicts (two numbers a bank, with 65 four) where a warp stores its 8 x 8 accumulators.
inline constexpr int kPairPitch = 69;

/// The place of a pair's number in its array, in bytes.
__device__ __forceinline__ constexpr std::uint32_t pair_offset(int row, int column, int array = 0) {
  return static_cast<std::uint32_t>((array * kRows + row) * kPairPitch + column) * 4;
}

/// Shared memory: of kCount tiles of rows and of one of columns their q or k and, backward, d_out
/// or v, d_out_state or state; then entries, log-sum-exp and delta of the queries, pieces, and
/// arrays of one number for each pair, or weights and gradients of all pairs as 16-bit operands.
/// What changes from pair to pair, the columns and what follows up to the pieces, may have two
/// stages. A block may have two tiles of keys (kKeyTiles), then as rows, with entries of their own.
template <int D, DeviceScore Score, bool kBackward = true, int kCount = 1, int kStages = 1,
          int kKeyTiles = 1, int kValueDim = D>
struct PairLayout {
  static constexpr int kStateDim = D;
  struct Tiles {
    std::uint32_t dots, values, state;
  };
  static constexpr std::uint32_t kDots = Score::kProducts ? kTileBytes<D> : 0;
  static constexpr std::uint32_t kTiles =
      kDots + (kBackward ? kTileBytes<kValueDim> + (Score::kState ? kTileBytes<kStateDim> : 0) : 0);
  static constexpr Tiles tiles(std::uint32_t first) {
    return {first, first + kDots, first + kDots + kTileBytes<kValueDim>};
  }
  static constexpr std::uint32_t kColumnTiles = kCount * kKeyTiles * kTiles;
  static constexpr std::uint32_t kEntries = kColumnTiles + kTiles;
  static constexpr std::uint32_t kLse =
      kEntries + (Score::kEntries ? kCount * kKeyTiles * kEntriesBytes : 0);
  static constexpr std::uint32_t kDelta = kLse + kCount * kRows * 4;
  static constexpr std::uint32_t kStage = kDelta + kCount * kRows * 4 - kColumnTiles;
  static constexpr std::uint32_t kPieces = kColumnTiles + kStages * kStage;
  static constexpr std::uint32_t kPairs = kPieces + Pieces<Score::kPieces>::kBytes;
  static constexpr int kBytes = static_cast<int>(kPairs);
  static constexpr int kPairBytes = kRows * kPairPitch * 4;
  static constexpr int kBytesWithPairs = kBytes + kPairBytes;
  static constexpr int kOperandBytes = kKeyTiles * kTileBytes<kRows>;
  static constexpr int kBytesWithOperands = kBytes + 2 * kOperandBytes;
};

/// A pair's tiles in shared memory, in the forms that TilePair describes.
template <typename T, int D, bool kTransposed, DeviceScore Score, bool kBackward = true,
          int kCount = 1, int kStages = 1, int kKeyTiles = 1, int kValueDim = D>
class PairTiles {
 protected:
  static constexpr int kRowTiles = kTransposed ? 1 : kCount;
  static constexpr bool kHalves = kTransposed && kCount == 2;
  // Whether nothing but the gradients of scores reads weights from registers.
  static constexpr bool kFolds = !kTransposed || kHalves;
  using Layout = PairLayout<D, Score, kBackward, kRowTiles, kStages, kKeyTiles, kValueDim>;
  static constexpr int kBlock = kKeyTiles * kThreads;
  static_assert(kCount == 1 || (!Score::kPieces && !Score::kTokens));
  static_assert(kKeyTiles == 1 || kHalves);
  static_assert(!kHalves || kValueDim == D);

 public:
  static constexpr int kStateDim = Layout::kStateDim;

  __device__ PairTiles(const BackwardLaunch<Score>& launch)
      : launch_(launch),
        problem_(launch.problem),
        shape_(launch.problem.shape),
        warp_(static_cast<int>(threadIdx.x) / 32 - key_tile() * (kThreads / 32)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        shared_(shared_memory()),
        pieces_(shared_ + Layout::kPieces) {}

  /// Of which part of the pairs q and k are fetched from here on.
  __device__ void take_part(int part) { part_ = part; }
  __device__ int part() const { return part_; }

  /// Of a block with several tiles of keys, the warp's; its number is among those of that tile.
  __device__ static int key_tile() {
    return kKeyTiles == 1 ? 0 : static_cast<int>(threadIdx.x) / kThreads;
  }
  __device__ int warp() const { return warp_; }
  __device__ int lane() const { return lane_; }
  __device__ int channels() const { return static_cast<int>(shape_.head_dim); }
  __device__ int value_channels() const { return static_cast<int>(shape_.value_dim); }
  __device__ int state_channels() const { return static_cast<int>(problem_.state_dim); }
  __device__ int queries() const { return static_cast<int>(shape_.queries); }
  __device__ int keys() const { return static_cast<int>(shape_.keys); }
  __device__ int group() const { return static_cast<int>(shape_.heads / shape_.kv_heads); }
  __device__ int position(int query) const { return query + static_cast<int>(shape_.query_offset); }

  __device__ const Pieces<Score::kPieces>& pieces() const { return pieces_; }
  __device__ Entries<Score> entries(int band = 0) const {
    return {shared_ + Layout::kEntries + stage_ + row_tile(band) * kEntriesBytes, pieces_};
  }

  /// Starts copying 64 queries of a head for each tile of them, with their log-sum-exp, the sink in
  /// it, and delta.
  __device__ void fetch_queries(int batch, int head, int first) {
    batch_ = batch;
    pieces_.store(problem_.score, head, first, queries());
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      fetch_tile(batch, head, first + tile * kRows, tile);
    }
  }

  /// Starts copying 64 keys of a kv head.
  __device__ void fetch_keys(int batch, int kv_head, int first) {
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      fetch_key_tile(batch, kv_head, first + tile * kRows, tile);
    }
  }

  /// Starts copying the entries of the pair of tiles whose first query and key these are.
  __device__ void fetch_entries(int head, int first_query, int first_key) {
    if constexpr (Score::kEntries) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        copy_entries(entries(tile).at - stage_ + fetched_, problem_.score, head,
                     Chunk<false>::first_distance(position(first_query + tile * kRows),
                                                  first_key + key_tile() * kRows),
                     static_cast<int>(threadIdx.x) - key_tile() * kThreads);
      }
    }
  }
  /// Waits for what was fetched, and for the pair's entries. All threads call it; the tiles may be
  /// fetched again after the next __syncthreads.
  __device__ void begin(int head, int first_query, int first_key) {
    fetch_entries(head, first_query, first_key);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    start(head);
  }
  /// Of a pair that is there.
  __device__ void start(int head) {
    compute_anew();
    head_ = head;
#pragma unroll
    for (int band = 0; band < kCount; ++band) {
      sum_rows<T, D>(
          problem_.score, [&](int d, std::uint32_t(&a)[4]) { dot_rows()(band, d, a); }, lane_,
          row_sum_[band]);
    }
    pieces_.begin(entries().at);
  }

  /// Calls call(place) for the places from `begin` on, next(place) the first one from a place on:
  /// for a pair of tiles each, whose columns and entries fetch(place) starts copying, of two stages
  /// while the pair before is computed. All threads call it, and wait for each other.
  template <class Next, class Fetch, class Call>
  __device__ __forceinline__ void for_each(int begin, int end, const Next& next, const Fetch& fetch,
                                           const Call& call) {
    int place = begin;
    if (place < end) fetch(place);
    commit_copies();
    while (place < end) {
      int following = place;
      const auto fetch_next = [&] {
        following = next(place + 1);
        if (following < end) fetch(following);
        commit_copies();
      };
      if constexpr (kStages == 2) {
        stage_ = fetched_;
        fetched_ = Layout::kStage - fetched_;
        fetch_next();
      }
      wait_copies<kStages - 1>();
      __syncthreads();
      call(place);
      __syncthreads();
      if constexpr (kStages == 1) fetch_next();
      place = following;
    }
    wait_copies<0>();
  }

 protected:
  /// Where two tiles of keys, or the sums of wide heads, leave no registers for what
  /// could be computed before the loop over the pairs.
  __device__ __forceinline__ void compute_anew() {
    if constexpr (kKeyTiles > 1 || D > 128) {
      cuda::compute_anew(shared_, lane_, warp_);
    }
  }

  /// Of a band its tile of rows, its first query, and the warp's first row in the tile.
  __device__ static std::uint32_t tile_of(int band) {
    return kTransposed ? 0 : static_cast<std::uint32_t>(band);
  }
  /// Where its rows lie among those of the block.
  __device__ static std::uint32_t row_tile(int band) {
    return kKeyTiles == 1 ? tile_of(band) : static_cast<std::uint32_t>(key_tile());
  }
  __device__ static int query_of(int first_query, int band) {
    return first_query + static_cast<int>(tile_of(band)) * kRows;
  }
  __device__ int warp_row(int band) const {
    return kHalves ? warp_ / 2 * 32 + band * 16 : warp_ * 16;
  }
  __device__ typename Layout::Tiles columns(std::uint32_t stage) const {
    return Layout::tiles(shared_ + Layout::kColumnTiles + stage);
  }
  __device__ typename Layout::Tiles rows_of_band(int band) const {
    return Layout::tiles(shared_ + row_tile(band) * Layout::kTiles);
  }
  /// Rows of a band as operands: of q or k, and of d_out or v.
  __device__ auto dot_rows() const {
    return [this](int band, int d, std::uint32_t(&a)[4]) {
      load_operand<D>(rows_of_band(band).dots, warp_row(band), d, lane_, a);
    };
  }
  __device__ auto value_rows() const {
    return [this](int band, int d, std::uint32_t(&a)[4]) {
      load_operand<kValueDim>(rows_of_band(band).values, warp_row(band), d, lane_, a);
    };
  }

  /// Starts copying 64 rows of a head: of q or k, of d_out or v and, where given, of d_out_state
  /// or state.
  __device__ __forceinline__ void copy_streams(const typename Layout::Tiles& to,
                                               const InputTensor& dots, const InputTensor& values,
                                               const InputTensor& state, int batch, int head,
                                               int first, int rows) const {
    if constexpr (Score::kProducts) {
      copy_tile<T, D, kBlock>(to.dots, pointer<T>(dots, batch, head), dots.row, first, rows,
                              channels());
    }
    if constexpr (kBackward) {
      copy_tile<T, kValueDim, kBlock>(to.values, pointer<T>(values, batch, head), values.row, first,
                                      rows, value_channels());
    }
    if constexpr (kBackward && Score::kState) {
      copy_tile<T, kStateDim, kBlock>(to.state, pointer<T>(state, batch, head), state.row, first,
                                      state.data ? rows : 0, state_channels());
    }
  }
  __device__ void fetch_key_tile(int batch, int kv_head, int first, int tile) const {
    const auto tiles =
        kTransposed ? Layout::tiles(shared_ + static_cast<std::uint32_t>(tile) * Layout::kTiles)
                    : columns(fetched_);
    copy_streams(tiles, k_of(problem_, part_), problem_.v, problem_.state, batch, kv_head, first,
                 keys());
  }
  __device__ void fetch_tile(int batch, int head, int first, int tile) const {
    const auto tiles = kTransposed ? columns(fetched_) : rows_of_band(tile);
    const DeviceSaved& saved = launch_.saved;
    copy_streams(tiles, q_of(problem_, part_), saved.d_out, saved.d_out_state, batch, head, first,
                 queries());
    int thread = static_cast<int>(threadIdx.x);
    if constexpr (kKeyTiles > 1) cuda::compute_anew(thread);
    const int n = thread % kRows, query = first + n;
    const bool exists = query < queries();
    const std::int64_t at = (batch * shape_.heads + head) * shape_.queries + query;
    if (thread < kRows) {
      store_shared(number_of_query(Layout::kLse + fetched_, tile, n),
                   lse_of_query(problem_, saved, head, exists, at));
    } else if constexpr (kBackward) {
      if (kBlock > 2 * kRows && thread >= 2 * kRows) return;
      store_shared(number_of_query(Layout::kDelta + fetched_, tile, n),
                   exists ? launch_.delta[at] : 0.0f);
    }
  }

  /// Where a number of query n of a band's tile lies.
  __device__ std::uint32_t number_of_query(std::uint32_t array, int band, int n) const {
    return shared_ + array + (tile_of(band) * kRows + static_cast<std::uint32_t>(n)) * 4;
  }
  /// Where the log-sum-exp or delta of a band's tile of queries lie.
  __device__ std::uint32_t numbers_of_queries(std::uint32_t array, int band) const {
    // Queries that are rows stay, in the first stage.
    return number_of_query(array + (kTransposed ? stage_ : 0), band, 0);
  }

  /// Of a band with that first query.
  __device__ Chunk<kTransposed> chunk_of(int first_query, int first_key, int first,
                                         int band) const {
    const int query = position(first_query);
    return {kTransposed ? first_key : query, kTransposed ? query : first_key, first,
            warp_row(band) / 16, lane_};
  }

  const BackwardLaunch<Score>& launch_;
  const Problem<Score>& problem_;
  const AttentionShape& shape_;
  int warp_, lane_;
  int batch_ = 0, head_ = 0;  // of the pair of tiles
  int part_ = 0;
  std::uint32_t shared_;
  std::uint32_t stage_ = 0, fetched_ = 0;  // what is computed, and where copies go
  float row_sum_[kCount][2] = {};
  [[no_unique_address]] Pieces<Score::kPieces> pieces_;
};

}  // namespace phasescope::kernels::cuda
