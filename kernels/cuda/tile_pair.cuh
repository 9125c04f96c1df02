#pragma once
// Pairs of a tile of queries and a tile of keys whose scores are computed again, with the saved
// log-sum-exp: for the backward pass and for the sums by distance.

#include <cuda_runtime.h>

#include <type_traits>
#include <variant>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kColumns = 32;  // of a chunk: few, to keep registers low
inline constexpr float kLn2 = 0.693147180559945309f;

/// Blocks of a multiprocessor at least, for kernels over pairs that need few registers: without,
/// the compiler takes fewer than they need (72 of the 128 that this leaves them) and spills.
inline constexpr int kPairBlocks = 4;

/// SavedForward and Gradients as kernels are given them, without the arrays of a variant that none
/// of those for every score reads.
struct DeviceSaved {
  InputTensor out, out_state;
  const float* lse = nullptr;
  InputTensor d_out, d_out_state;
};
struct DeviceGradients {
  OutputTensor dq, dk, dv, d_state;
  OutputTensor far_dq, far_dk;  // of clamped distances
};
inline DeviceSaved device_saved(const SavedForward& saved, const Gradients& gradients) {
  const auto* tape = std::get_if<TapeGradients>(&gradients.variant);
  return {saved.out, saved.out_state, saved.lse, saved.d_out,
          tape ? tape->d_out_state : InputTensor{}};
}
inline DeviceGradients device_gradients(const Gradients& gradients) {
  const auto* tape = std::get_if<TapeGradients>(&gradients.variant);
  const auto* clamp = std::get_if<ClampGradients>(&gradients.variant);
  return {gradients.dq,
          gradients.dk,
          gradients.dv,
          tape ? tape->d_state : OutputTensor{},
          clamp ? clamp->dq : OutputTensor{},
          clamp ? clamp->dk : OutputTensor{}};
}
inline float* own_gradients(const Gradients& gradients) {
  const auto* table = std::get_if<QueryTableGradients>(&gradients.variant);
  return table ? table->values : nullptr;
}

template <DeviceScore Score>
struct BackwardLaunch {
  Problem<Score> problem;
  DeviceSaved saved;  // of the sums by distance: lse alone
  DeviceGradients gradients;
  float* delta;      // (B, heads, queries)
  float* diagonals;  // FIRE alone: (heads, tile_distances(), kThreads)
  float* factors;    // FIRE alone: (B, heads, queries)
  float2* pieces;    // FIRE alone: (heads, tile_distances(), kMostSegments), slope and intercept
  TokenGradients tokens = {};  // of scores with numbers of tokens alone
  float* own = nullptr;        // of pairs' own numbers, like these; null where not wanted
  float* distances = nullptr;  // tables alone: (B, heads, blocks of a head, block_distances())
};

/// Tiles I of queries and J of keys have tile distance I - J; its diagonal n of 127 is the distance
/// 64 (I - J) + query_offset - 63 + n. The places of a tile distance count from the least one.
struct TileDistance {
  int key_tiles, query_tiles;
  int ahead;  // I - J

  __device__ TileDistance(const AttentionShape& shape, unsigned place)
      : key_tiles(static_cast<int>(tiles_of(shape.keys))),
        query_tiles(static_cast<int>(tiles_of(shape.queries))),
        ahead(static_cast<int>(place) - (key_tiles - 1)) {}
  /// The tiles of queries that have a tile of keys there.
  __device__ int first() const { return max(0, ahead); }
  __device__ int last() const { return min(query_tiles, key_tiles + ahead); }
};

/// Those of them that are a strip's.
__device__ inline Stretch tiles_of_strip(const Strip& strip, const TileDistance& tiles) {
  const int first_key = static_cast<int>(strip.first_key / kRows);
  const int last_key = static_cast<int>(tiles_of(strip.last_key));
  return {max(max(tiles.first(), static_cast<int>(strip.first / kRows)), tiles.ahead + first_key),
          min(min(tiles.last(), static_cast<int>(tiles_of(strip.last))), tiles.ahead + last_key)};
}

/// The places (tile distance, diagonal) that hold a distance, as call(tile, n): one or two.
template <class Call>
__device__ void for_each_part(const AttentionShape& shape, std::int64_t distance,
                              const Call& call) {
  const std::int64_t key_tiles = tiles_of(shape.keys);
  const std::int64_t shifted = distance - shape.query_offset + (key_tiles - 1) * kRows;
  const std::int64_t tile = shifted >= 0 ? shifted / kRows : (shifted - (kRows - 1)) / kRows;
  const int rest = static_cast<int>(shifted - tile * kRows);
  const std::int64_t tiles = tile_distances(shape);
  if (tile >= 0 && tile < tiles) call(tile, rest + kRows - 1);
  if (rest > 0 && tile + 1 >= 0 && tile + 1 < tiles) call(tile + 1, rest - 1);
}

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

/// What the kernels over tile pairs share. Rows are queries and columns keys, or, transposed, the
/// other way round. Not backward: scores alone.
///
/// A warp has 16 rows of a tile and goes over its columns by chunks, or two times 16 rows, its
/// bands, which share what is loaded of the columns. Bands of queries are 16 rows each of two tiles
/// beside each other. Bands of keys (transposed) are 32 rows of one tile; a warp takes the one or
/// the other half of the queries, and the sums over all queries of one half of the channels:
/// weights and gradients change hands in shared memory. There a block may have a second tile of
/// keys, of four warps more: functions that are given a first key then take that of the warp's own
/// tile (key_tile()), but for those that copy, which take that of the first.
template <typename T, int D, bool kTransposed, DeviceScore Score, bool kBackward = true,
          int kCount = 1, int kStages = 1, int kKeyTiles = 1, int kValueDim = D>
class TilePair {
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
  using Numbers = float[kColumns / 8][4];
  Numbers weight[kCount];   // of a chunk; where kFolds: times the derivative of a soft cap
  Numbers d_score[kCount];  // natural units; of a score's entry where it has its own
  Dots<kColumns, Score> gradient[kCount];  // of the dot products, before factor(channel)
  // Of the factor of the pair's query, where its score has one.
  float d_factor[Score::kTokens ? kColumns / 8 : 1][4];

  __device__ TilePair(const BackwardLaunch<Score>& launch)
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
    for (int tile = 0; tile < kRowTiles; ++tile)
      fetch_tile(batch, head, first + tile * kRows, tile);
  }

  /// Starts copying 64 keys of a kv head.
  __device__ void fetch_keys(int batch, int kv_head, int first) {
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile)
      fetch_key_tile(batch, kv_head, first + tile * kRows, tile);
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
    sum_rows<T, D>(
        problem_.score, [this](int d, std::uint32_t(&a)[4]) { dot_rows()(0, d, a); }, lane_,
        row_sum_);
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

  /// Scores of the chunk from column `first` of the pair, in log2 units, -inf where masked.
  __device__ Chunk<kTransposed> compute_scores(const Visibility& visibility, int first_query,
                                               int first_key, int first,
                                               Dots<kColumns, Score>& dots, Numbers& t) const {
    const auto chunk = chunk_of(first_query, first_key, first, 0);
    multiply_dots(OneBand{}, first, [&](int) -> Dots<kColumns, Score>& { return dots; });
    score_band(visibility, chunk, first_query, first_key, first, 0, dots, t);
    return chunk;
  }

  /// Weights and gradients of the chunk from column `first` of the bands' pairs; first_query is
  /// that of band 0. Calls taken(band) once d_score of a band is there: what reads it there and
  /// nowhere else leaves its registers to the bands that follow.
  template <class Which = OneBand>
  __device__ __forceinline__ void compute(const Visibility& visibility, int first_query,
                                          int first_key, int first, const Which& bands = {}) {
    compute(visibility, first_query, first_key, first, bands, [](int) {});
  }
  template <class Which, class Taken>
  __device__ __forceinline__ void compute(const Visibility& visibility, int first_query,
                                          int first_key, int first, const Which& bands,
                                          const Taken& taken) {
    Dots<kColumns, Score> dots[Which::kLast];
    multiply_dots(bands, first, [&](int band) -> Dots<kColumns, Score>& { return dots[band]; });
    [[maybe_unused]] Numbers tangent[Which::kLast];  // of the soft cap
#pragma unroll
    for (int band = Which::kFirst; band < Which::kLast; ++band) {
      weigh(visibility, query_of(first_query, band), first_key, first, band, dots[band],
            tangent[band]);
    }
    const auto finish = [&](const auto& some) {
      using Some = std::remove_cvref_t<decltype(some)>;
      compute_anew();
      multiply_values(some, first);
#pragma unroll
      for (int band = Some::kFirst; band < Some::kLast; ++band) {
        const auto chunk = chunk_of(query_of(first_query, band), first_key, first, band);
        differentiate(chunk, band, dots[band], tangent[band]);
        taken(band);
      }
    };
    if constexpr (kKeyTiles == 1) {
      finish(bands);
    } else {
      // A thread has no registers for the gradients of both bands' weights.
      finish(Bands<0, 1>{});
      finish(Bands<1, 2>{});
    }
  }

  /// Weights alone of the chunk from column `first` of one band.
  __device__ __forceinline__ void compute_weights(const Visibility& visibility, int first_query,
                                                  int first_key, int first) {
    static_assert(!kFolds);
    Dots<kColumns, Score> dots;
    Numbers t;
    const auto chunk = compute_scores(visibility, first_query, first_key, first, dots, t);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        weight[0][n][e] = fast_exp2(t[n][e] - of_query(Layout::kLse, chunk, 0, n, e));
      }
    }
  }

  /// Gradients of the softmax's inputs of the chunk from column `first` of the pair: what compute()
  /// has before a cap's slope and the variant's own gradients.
  __device__ void compute_input_gradients(const Visibility& visibility, int first_query,
                                          int first_key, int first) {
    Dots<kColumns, Score> dots;
    Numbers t;
    const auto chunk = compute_scores(visibility, first_query, first_key, first, dots, t);
    multiply_values(OneBand{}, first);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float p = fast_exp2(t[n][e] - of_query(Layout::kLse, chunk, 0, n, e));
        const float apart = d_score[0][n][e] - of_query(Layout::kDelta, chunk, 0, n, e);
        d_score[0][n][e] = p == 0 ? 0 : p * apart;
      }
    }
  }

  /// Zeros for all numbers of their own that pairs of 64 queries have, whose gradients follow after
  /// the next __syncthreads.
  __device__ void clear_own(int batch, int head, int first, float* to) const {
    const std::int64_t length = problem_.score.table.length;
    const std::int64_t row = (batch * shape_.heads + head) * shape_.queries + first;
    const std::int64_t count = min(kRows, queries() - first) * length;
    for (std::int64_t n = threadIdx.x; n < count; n += kThreads) to[row * length + n] = 0;
  }
  /// The gradients of those of the chunk from `first` on: each pair has its place.
  __device__ void write_own(int first_query, int first_key, int first, float* to) const {
    static_assert(!kTransposed);
    const Chunk<false> chunk(first_query, first_key, first, warp_, lane_);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = chunk.row_of(e), key = chunk.column_of(n, e);
        if (query >= queries() || key >= keys()) continue;
        const std::int64_t at = problem_.score.place(batch_, head_, query, position(query) - key);
        if (at >= 0) to[at] = d_score[0][n][e];
      }
    }
  }

  /// sums += what the chunk gives to the numbers of the thread's two rows: of the scores'
  /// gradients, or of their queries' factors'.
  __device__ void add_rows(const Numbers& gradients, float (&sums)[2]) const {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[e / 2] += gradients[n][e];
    }
  }

  /// sums(band) += gradients . (k of the keys, or transposed q of the queries).
  template <class Which, class Sums>
  __device__ __forceinline__ void add_dots(const Which& bands, int first, const Sums& sums) const {
    accumulate_gradients<T, D, kColumns>(
        problem_.score, bands,
        [this](int band) -> const Dots<kColumns, Score>& { return gradient[band]; },
        columns(stage_).dots, first, lane_, sums);
  }
  __device__ void add_dots(int first, float (&sums)[D / 8][4]) const {
    add_dots(OneBand{}, first, [&](int) -> float(&)[D / 8][4] { return sums; });
  }
  /// Transposed: sums += weights . d_out of the queries.
  __device__ void add_values(int first, float (&sums)[kValueDim / 8][4]) const {
    static_assert(kTransposed);
    accumulate<T, kValueDim, kColumns>(weight[0], columns(stage_).values, first, lane_, sums);
  }
  __device__ void add_state(int first, float (&sums)[kStateDim / 8][4]) const {
    accumulate<T, kStateDim, kColumns>(weight[0], columns(stage_).state, first, lane_, sums);
  }

  /// Of bands of keys: the chunk of queries that the warp takes, and the channels of its sums.
  __device__ int own_chunk() const { return warp_ % 2 * kColumns; }
  __device__ int own_channel() const { return warp_ % 2 * (D / 2); }

  /// Keeps the gradients of the chunk for the warps of the same keys, as compute() did with the
  /// weights; both are seen after the next __syncthreads.
  __device__ __forceinline__ void keep_gradients() const {
#pragma unroll
    for (int band = 0; band < kCount; ++band) keep_gradients(band, packed_gradients(band));
  }
  /// The same in two steps for each band, between which half of the registers hold them.
  struct Packed {
    std::uint32_t pairs[kColumns / 8][2];
  };
  __device__ __forceinline__ Packed packed_gradients(int band) const {
    static_assert(kHalves && Score::kDots == 1 && 2 * kColumns == kRows);
    return packed(gradient[band].dot);
  }
  __device__ __forceinline__ void keep_gradients(int band, const Packed& gradients) const {
    keep_operand(operands(1), band, gradients);
  }
  /// sums += weights of all queries . d_out, and gradients . q: of the warp's channels.
  __device__ __forceinline__ void add_kept_values(float (&sums)[kCount][D / 16][4]) const {
    add_kept(operands(0), columns(stage_).values, sums);
  }
  __device__ __forceinline__ void add_kept_dots(float (&sums)[kCount][D / 16][4]) const {
    add_kept(operands(1), columns(stage_).dots, sums);
  }
  /// Where what keep_gradients() keeps of a tile of keys lies, and that tile's k.
  __device__ std::uint32_t kept_gradients(int tile) const { return operands_of_key_tile(1, tile); }
  __device__ std::uint32_t keys_of_tile(int tile) const {
    return Layout::tiles(shared_ + static_cast<std::uint32_t>(tile) * Layout::kTiles).dots;
  }

  /// Writes the warp's channels of its 32 keys, of the 64 from `first` on, that are below `width`.
  __device__ __forceinline__ void write_kept(const OutputTensor& to, int batch, int head, int first,
                                             int width, const float (&sums)[kCount][D / 16][4],
                                             float factor) const {
#pragma unroll
    for (int band = 0; band < kCount; ++band) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first + warp_row(band) + lane_ / 4 + 8 * half;
        if (row >= keys()) continue;
        write_row<T, D / 2>(
            pointer<T>(to, batch, head) + row * to.row + own_channel(), sums[band], half,
            [factor](int) { return factor; }, width - own_channel(), lane_);
      }
    }
  }

  /// sums += what the chunk gives to the factors of the thread's two rows.
  __device__ void add_factors(int first, float (&sums)[2]) const {
    static_assert(Score::kPieces && !kTransposed);
    const Chunk<false> chunk(0, 0, first, warp_, lane_);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float distance = entries().stored(chunk.entry(n, e));
        const float u = distance * pieces_.factor(chunk.query_in_tile(n, e));
        sums[e / 2] += d_score[0][n][e] * (pieces_.slope(u) * distance);
      }
    }
  }

  /// Keeps a number for element e of [n] of the chunk from `first`, in one of the pair's arrays.
  __device__ void store(int first, int n, int e, float value, int array = 0) const {
    const Chunk<kTransposed> chunk(0, 0, first, warp_, lane_);
    store_shared(pair_address(chunk.row_of(e), chunk.column_of(n, e), array), value);
  }
  /// Scores of the pair to its first array; content scores, where wanted, to its second.
  __device__ void store_scores(const Visibility& visibility, int first_query, int first_key,
                               bool content = false) const {
    for (int first = 0; first < kRows; first += kColumns) {
      Dots<kColumns, Score> dots;
      float t[kColumns / 8][4];
      compute_scores(visibility, first_query, first_key, first, dots, t);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) store(first, n, e, t[n][e]);
      }
      if (!content) continue;
      const float factor = problem_.score.factor(0);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) store(first, n, e, factor * dots.dot[n][e], 1);
      }
    }
  }
  /// Content scores of the pair to its second array, where its scores had another q and k.
  __device__ void store_near_content(int head, int first_query, int first_key) {
    const int part = part_;
    __syncthreads();
    take_part(kNear);
    fetch_queries(batch_, head, first_query);
    fetch_keys(batch_, head / group(), first_key);
    begin(head, first_query, first_key);
    const float factor = problem_.score.factor(0);
    for (int first = 0; first < kRows; first += kColumns) {
      Dots<kColumns, Score> dots[1];
      multiply_dots(OneBand{}, first,
                    [&dots](int band) -> Dots<kColumns, Score>& { return dots[band]; });
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) store(first, n, e, factor * dots[0].dot[n][e], 1);
      }
    }
    take_part(part);
  }
  __device__ float stored(int row, int column, int array = 0) const {
    return load_shared<float>(pair_address(row, column, array));
  }
  /// The numbers kept on diagonal `n` of the pair, as call(row, number): row r and column r + 63 -
  /// n where there is one.
  template <class Call>
  __device__ void for_diagonal(int n, const Call& call) const {
    for (int row = max(0, n - (kRows - 1)); row < min(kRows, n + 1); ++row) {
      call(row, stored(row, column_on_diagonal(n, row)));
    }
  }
  __device__ static int column_on_diagonal(int n, int row) { return row + kRows - 1 - n; }
  __device__ float lse_of_row(int row) const {
    return load_shared<float>(shared_ + Layout::kLse + static_cast<std::uint32_t>(row) * 4);
  }

  /// Writes one sum a row: of each row's four threads, of the 64 rows from `first` on.
  __device__ void write_rows(float* to, int first, int count, const float (&sums)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + warp_ * 16 + lane_ / 4 + 8 * half;
      const float sum = quad_sum(sums[half]);
      if (lane_ % 4 == 0 && row < count) to[row] = sum;
    }
  }
  /// Writes the thread's two rows, of the 64 from `first` on, where they exist.
  template <int kDim, class Factor>
  __device__ void write(const OutputTensor& to, int batch, int head, int first, int count,
                        int width, const float (&sums)[kDim / 8][4], const Factor& factor) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + warp_ * 16 + lane_ / 4 + 8 * half;
      if (row >= count) continue;
      write_row<T, kDim>(pointer<T>(to, batch, head) + row * to.row, sums, half, factor, width,
                         lane_);
    }
  }

 private:
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
  __device__ std::uint32_t operands(int array) const {
    return operands_of_key_tile(array, key_tile());
  }
  __device__ std::uint32_t operands_of_key_tile(int array, int tile) const {
    return shared_ + Layout::kPairs +
           static_cast<std::uint32_t>(array * Layout::kOperandBytes + tile * kTileBytes<kRows>);
  }

  __device__ static __forceinline__ Packed packed(const Numbers& numbers) {
    Packed result;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        result.pairs[n][half] = Half<T>::pack(numbers[n][2 * half], numbers[n][2 * half + 1]);
      }
    }
    return result;
  }
  __device__ __forceinline__ void keep_operand(std::uint32_t to, int band,
                                               const Packed& numbers) const {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row(band) + lane_ / 4 + 8 * half;
        store_shared(to + accumulator_offset<kRows>(row, own_chunk() / 8 + n, lane_),
                     numbers.pairs[n][half]);
      }
    }
  }
  __device__ __forceinline__ void add_kept(std::uint32_t kept, std::uint32_t tile,
                                           float (&sums)[kCount][D / 16][4]) const {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      std::uint32_t a[kCount][4];
#pragma unroll
      for (int band = 0; band < kCount; ++band) {
        load_operand<kRows>(kept, warp_row(band), n, lane_, a[band]);
      }
#pragma unroll
      for (int d = 0; d < D / 32; ++d) {
        std::uint32_t b[4];
        load_values<D>(tile, n * 16, own_channel() / 16 + d, lane_, b);
#pragma unroll
        for (int band = 0; band < kCount; ++band) {
          Half<T>::multiply(sums[band][2 * d], a[band], b[0], b[1]);
          Half<T>::multiply(sums[band][2 * d + 1], a[band], b[2], b[3]);
        }
      }
    }
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

  __device__ void fetch_key_tile(int batch, int kv_head, int first, int tile) const {
    const auto tiles =
        kTransposed ? Layout::tiles(shared_ + static_cast<std::uint32_t>(tile) * Layout::kTiles)
                    : columns(fetched_);
    if constexpr (Score::kProducts) {
      const InputTensor& k = k_of(problem_, part_);
      copy_tile<T, D, kBlock>(tiles.dots, pointer<T>(k, batch, kv_head), k.row, first, keys(),
                              channels());
    }
    if constexpr (kBackward) {
      copy_tile<T, kValueDim, kBlock>(tiles.values, pointer<T>(problem_.v, batch, kv_head),
                                      problem_.v.row, first, keys(), value_channels());
    }
    if constexpr (kBackward && Score::kState) {
      copy_tile<T, kStateDim>(tiles.state, pointer<T>(problem_.state, batch, kv_head),
                              problem_.state.row, first, keys(), state_channels());
    }
  }
  __device__ void fetch_tile(int batch, int head, int first, int tile) const {
    const auto tiles = kTransposed ? columns(fetched_) : rows_of_band(tile);
    const DeviceSaved& saved = launch_.saved;
    if constexpr (Score::kProducts) {
      const InputTensor& q = q_of(problem_, part_);
      copy_tile<T, D, kBlock>(tiles.dots, pointer<T>(q, batch, head), q.row, first, queries(),
                              channels());
    }
    if constexpr (kBackward) {
      copy_tile<T, kValueDim, kBlock>(tiles.values, pointer<T>(saved.d_out, batch, head),
                                      saved.d_out.row, first, queries(), value_channels());
    }
    if constexpr (kBackward && Score::kState) {
      const InputTensor& d_state = saved.d_out_state;
      copy_tile<T, kStateDim>(tiles.state, pointer<T>(d_state, batch, head), d_state.row, first,
                              d_state.data ? queries() : 0, state_channels());
    }
    int thread = static_cast<int>(threadIdx.x);
    if constexpr (kKeyTiles > 1) cuda::compute_anew(thread);
    const int n = thread % kRows, query = first + n;
    const bool exists = query < queries();
    const std::int64_t at = (batch * shape_.heads + head) * shape_.queries + query;
    if (thread < kRows) {
      // Rows that do not exist or see no key: +inf makes every weight 0. Sums of scores have none.
      const float lse = exists && saved.lse
                            ? lse_with_sink(saved.lse[at] * kLog2e, sink_of(problem_, head))
                            : INFINITY;
      store_shared(number_of_query(Layout::kLse + fetched_, tile, n),
                   lse == -INFINITY ? INFINITY : lse);
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
  /// The log-sum-exp or delta of an element's query.
  __device__ float of_query(std::uint32_t array, const Chunk<kTransposed>& chunk, int band, int n,
                            int e) const {
    // Queries that are rows stay, in the first stage.
    const std::uint32_t stage = kTransposed ? stage_ : 0;
    return load_shared<float>(number_of_query(array + stage, band, chunk.query_in_tile(n, e)));
  }

  /// Of a band with that first query.
  __device__ Chunk<kTransposed> chunk_of(int first_query, int first_key, int first,
                                         int band) const {
    const int query = position(first_query);
    return {kTransposed ? first_key : query, kTransposed ? query : first_key, first,
            warp_row(band) / 16, lane_};
  }

  template <class Which, class Products>
  __device__ __forceinline__ void multiply_dots(const Which& bands, int first,
                                                const Products& dots) const {
    if constexpr (Score::kProducts) {
      multiply_rows<T, D, kColumns>(
          problem_.score, bands, dot_rows(), [this](int) -> const float(&)[2] { return row_sum_; },
          columns(stage_).dots, first, lane_, dots);
    }
  }

  /// From a band's dot products to scores of its chunk.
  __device__ __forceinline__ void score_band(const Visibility& visibility,
                                             const Chunk<kTransposed>& chunk, int first_query,
                                             int first_key, int first, int band,
                                             Dots<kColumns, Score>& dots, Numbers& t) const {
    if constexpr (Score::kStored) {
      for_each_stored<kColumns>(problem_.score.strip, head_, first_query, first_key, chunk,
                                [&](int n, int e, float stored) {
                                  t[n][e] = stored;
                                  if constexpr (!Score::kProducts) dots.dot[n][e] = 0;
                                });
    } else {
      score_chunk(problem_, {batch_, head_}, dots, entries(band), chunk, t);
      const RealKeys real = visibility.real_keys(first_key / kRows);
      const int row = chunk.row + warp_row(band), last_row = row + 15;
      const int column = chunk.column + first, last_column = column + kColumns - 1;
      const bool whole = kTransposed ? real.template all<16>(warp_row(band)) &&
                                           visibility.whole(column, last_column, row, last_row)
                                     : real.template all<kColumns>(first) &&
                                           visibility.whole(row, last_row, column, last_column);
      if (!whole) mask_chunk<kColumns>(visibility, real, chunk, t);
    }
  }

  /// A band's weights. Where kFolds they take the soft cap's derivative, so that it need not be
  /// kept.
  __device__ __forceinline__ void weigh(const Visibility& visibility, int first_query,
                                        int first_key, int first, int band,
                                        Dots<kColumns, Score>& dots, Numbers& tangent) {
    const auto chunk = chunk_of(first_query, first_key, first, band);
    Numbers t;
    score_band(visibility, chunk, first_query, first_key, first, band, dots, t);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        weight[band][n][e] = fast_exp2(t[n][e] - of_query(Layout::kLse, chunk, band, n, e));
      }
    }
    if constexpr (kHalves) keep_operand(operands(0), band, packed(weight[band]));
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        tangent[n][e] = 1;
        if (problem_.soft_cap == 0) continue;
        const float share = t[n][e] / problem_.soft_cap;
        tangent[n][e] = weight[band][n][e] == 0 ? 0 : 1 - share * share;
        if constexpr (kFolds) weight[band][n][e] *= tangent[n][e];
      }
    }
  }

  /// From the gradients of a band's weights to those of its scores and dot products.
  __device__ __forceinline__ void differentiate(const Chunk<kTransposed>& chunk, int band,
                                                const Dots<kColumns, Score>& dots,
                                                const Numbers& tangent) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float delta = of_query(Layout::kDelta, chunk, band, n, e);
        const float p = weight[band][n][e];
        float ds = p == 0 ? 0 : p * (d_score[band][n][e] - delta);
        if constexpr (!kFolds) ds *= tangent[n][e];
        if constexpr (Score::kTokens) {
          ds = through_tokens(chunk, dots, n, e, ds);
        }
        d_score[band][n][e] = problem_.score.entry_gradient(ds, dots.dot[n][e]);
        const float phase = Score::kDots == 2 ? dots.phase[Score::kDots == 2 ? n : 0][e] : 0;
        const float entry = entry_of(problem_, {batch_, head_}, entries(band), chunk, n, e);
        const DotGradients d = problem_.score.gradient(ds, dots.dot[n][e], phase, entry);
        gradient[band].dot[n][e] = d.dot;
        if constexpr (Score::kDots == 2) gradient[band].phase[n][e] = d.phase;
      }
    }
  }

  __device__ std::uint32_t pair_address(int row, int column, int array) const {
    return shared_ + Layout::kPairs + pair_offset(row, column, array);
  }

  /// From the gradient of a score with numbers of tokens to that of the score inside them.
  __device__ __forceinline__ float through_tokens(const Chunk<kTransposed>& chunk,
                                                  const Dots<kColumns, Score>& dots, int n, int e,
                                                  float ds) {
    const auto& tokens = problem_.score.tokens;
    const int query = chunk.position(n, e) - static_cast<int>(shape_.query_offset);
    const float entry = entry_of(problem_, {batch_, head_}, entries(), chunk, n, e);
    const float inner = problem_.score.score(dots.dot[n][e], 0, entry) * kLn2;
    const float before = inner + tokens.bias(batch_, head_, query, chunk.key(n, e));
    d_factor[n][e] = ds == 0 ? 0 : ds * before;
    return ds * tokens.factor(batch_, head_, query);
  }

  /// d_score = d_out . v (+ d_out_state . state), the gradients of the weights.
  template <class Which>
  __device__ __forceinline__ void multiply_values(const Which& bands, int first) {
#pragma unroll
    for (int band = Which::kFirst; band < Which::kLast; ++band) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) d_score[band][n][e] = 0;
      }
    }
    const auto sums = [this](int band) -> Numbers& { return d_score[band]; };
    add_products<T, kValueDim, kColumns>(bands, value_rows(), columns(stage_).values, first, lane_,
                                         sums);
    if constexpr (Score::kState) {
      const auto rows = [this](int band, int d, std::uint32_t(&a)[4]) {
        load_operand<kStateDim>(rows_of_band(band).state, warp_row(band), d, lane_, a);
      };
      add_products<T, kStateDim, kColumns>(bands, rows, columns(stage_).state, first, lane_, sums);
    }
  }

  const BackwardLaunch<Score>& launch_;
  const Problem<Score>& problem_;
  const AttentionShape& shape_;
  int warp_, lane_;
  int batch_ = 0, head_ = 0;  // of the pair of tiles
  int part_ = 0;
  std::uint32_t shared_;
  std::uint32_t stage_ = 0, fetched_ = 0;  // what is computed, and where copies go
  float row_sum_[2] = {0, 0};
  [[no_unique_address]] Pieces<Score::kPieces> pieces_;
};

}  // namespace phasescope::kernels::cuda
