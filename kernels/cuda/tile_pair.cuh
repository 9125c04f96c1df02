#pragma once
// Pairs of a tile of queries and a tile of keys whose scores are computed again, with the saved
// log-sum-exp: for the backward pass and for the sums by distance.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/backward_launch.cuh"
#include "kernels/cuda/pair_gradients.cuh"
#include "kernels/cuda/pair_tiles.cuh"
#include "kernels/cuda/scores.cuh"
#include "kernels/cuda/tile_distances.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kColumns = 32;  // of a chunk: few, to keep registers low

/// Blocks of a multiprocessor at least, for kernels over pairs that need few registers: without,
/// the compiler takes fewer than they need (72 of the 128 that this leaves them) and spills.
inline constexpr int kPairBlocks = 4;

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
class TilePair
    : public PairTiles<T, D, kTransposed, Score, kBackward, kCount, kStages, kKeyTiles, kValueDim> {
  using Base =
      PairTiles<T, D, kTransposed, Score, kBackward, kCount, kStages, kKeyTiles, kValueDim>;
  using Base::batch_;
  using Base::chunk_of;
  using Base::columns;
  using Base::compute_anew;
  using Base::dot_rows;
  using Base::head_;
  using Base::kFolds;
  using Base::kHalves;
  using Base::lane_;
  using Base::numbers_of_queries;
  using Base::part_;
  using Base::pieces_;
  using Base::problem_;
  using Base::query_of;
  using Base::row_sum_;
  using Base::rows_of_band;
  using Base::shape_;
  using Base::shared_;
  using Base::stage_;
  using Base::value_rows;
  using Base::warp_;
  using Base::warp_row;
  using typename Base::Layout;

 public:
  using Base::begin;
  using Base::entries;
  using Base::fetch_keys;
  using Base::fetch_queries;
  using Base::group;
  using Base::key_tile;
  using Base::keys;
  using Base::kStateDim;
  using Base::position;
  using Base::queries;
  using Base::take_part;
  using Numbers = float[kColumns / 8][4];
  Numbers weight[kCount];   // of a chunk; where kFolds: times the derivative of a soft cap
  Numbers d_score[kCount];  // natural units; of a score's entry where it has its own
  Dots<kColumns, Score> gradient[kCount];  // of the dot products, before factor(channel)
  // Of the factor of the pair's query, where its score has one.
  float d_factor[Score::kTokens ? kColumns / 8 : 1][4];

  __device__ TilePair(const BackwardLaunch<Score>& launch) : Base(launch) {}

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
    if constexpr (kKeyTiles == 1 || Which::kLast == Which::kFirst + 1) {
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
    weigh_pair<kColumns>(chunk, numbers_of_queries(Layout::kLse, 0), t, weight[0]);
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
        const float p =
            fast_exp2(t[n][e] - of_query(numbers_of_queries(Layout::kLse, 0), chunk, n, e));
        const float apart =
            d_score[0][n][e] - of_query(numbers_of_queries(Layout::kDelta, 0), chunk, n, e);
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
    static_assert(kHalves && 2 * kColumns == kRows);
    return packed(gradient[band].dot);
  }
  __device__ __forceinline__ void keep_gradients(int band, const Packed& gradients) const {
    keep_operand(operands(1), band, gradients);
  }
  /// Those of the second dot product, which take the place of the weights once no warp of the keys
  /// reads these any more.
  __device__ __forceinline__ Packed packed_phases(int band) const {
    static_assert(kHalves && Score::kDots == 2);
    return packed(gradient[band].phase);
  }
  __device__ __forceinline__ void keep_phases(int band, const Packed& gradients) const {
    keep_operand(operands(0), band, gradients);
  }
  /// sums += weights of all queries . d_out, or d_out_state, and gradients . q: of the warp's
  /// channels.
  __device__ __forceinline__ void add_kept_values(float (&sums)[kCount][D / 16][4]) const {
    add_kept_weights(columns(stage_).values, sums);
  }
  __device__ __forceinline__ void add_kept_state(float (&sums)[kCount][D / 16][4]) const {
    add_kept_weights(columns(stage_).state, sums);
  }
  __device__ __forceinline__ void add_kept_dots(float (&sums)[kCount][D / 16][4]) const {
    const auto load = [this](int band, int n, GradientOperands& a) {
      load_operand<kRows>(operands(1), warp_row(band), n, lane_, a.dot);
      if constexpr (Score::kDots == 2) {
        load_operand<kRows>(operands(0), warp_row(band), n, lane_, a.phase);
      }
    };
    add_kept(columns(stage_).dots, load, problem_.score, sums);
  }
  /// Where what keep_gradients() keeps of a tile of keys lies, and that tile's k.
  __device__ std::uint32_t kept_gradients(int tile) const { return operands_of_key_tile(1, tile); }
  __device__ std::uint32_t keys_of_tile(int tile) const {
    return Layout::tiles(shared_ + static_cast<std::uint32_t>(tile) * Layout::kTiles).dots;
  }
  /// The kept gradients of a tile of keys, keys 16 n .., with rows and columns exchanged: of the
  /// queries from `row` on.
  __device__ __forceinline__ void load_kept_exchanged(int tile, int n, int row,
                                                      GradientOperands& a) const {
    load_exchanged<kRows>(kept_gradients(tile), n * 16, row / 16, lane_, a.dot);
    if constexpr (Score::kDots == 2) {
      load_exchanged<kRows>(operands_of_key_tile(0, tile), n * 16, row / 16, lane_, a.phase);
    }
  }
  __device__ const Score& score() const { return problem_.score; }

  /// Writes the warp's channels of its 32 keys, of the 64 from `first` on, that are below `width`,
  /// times factor(channel).
  template <class Factor>
  __device__ __forceinline__ void write_kept(const OutputTensor& to, int batch, int head, int first,
                                             int width, const float (&sums)[kCount][D / 16][4],
                                             const Factor& factor) const {
#pragma unroll
    for (int band = 0; band < kCount; ++band) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first + warp_row(band) + lane_ / 4 + 8 * half;
        if (row >= keys()) continue;
        write_row<T, D / 2>(
            pointer<T>(to, batch, head) + row * to.row + own_channel(), sums[band], half,
            [&](int channel) { return factor(own_channel() + channel); }, width - own_channel(),
            lane_);
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
  /// sums += what is kept of all queries, load(band, n, operands) of the queries 16 n .., times the
  /// tile: by multiply_gradients() of that score.
  template <class Load, DeviceScore Split>
  __device__ __forceinline__ void add_kept(std::uint32_t tile, const Load& load, const Split& split,
                                           float (&sums)[kCount][D / 16][4]) const {
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      GradientOperands a[kCount];
#pragma unroll
      for (int band = 0; band < kCount; ++band) load(band, n, a[band]);
#pragma unroll
      for (int d = 0; d < D / 32; ++d) {
        const int own = own_channel() / 16 + d;
        std::uint32_t b[4];
        load_values<D>(tile, n * 16, own, lane_, b);
#pragma unroll
        for (int band = 0; band < kCount; ++band) {
          multiply_gradients<T>(split, a[band], own, lane_, b, sums[band][2 * d],
                                sums[band][2 * d + 1]);
        }
      }
    }
  }
  __device__ __forceinline__ void add_kept_weights(std::uint32_t tile,
                                                   float (&sums)[kCount][D / 16][4]) const {
    const auto load = [this](int band, int n, GradientOperands& a) {
      load_operand<kRows>(operands(0), warp_row(band), n, lane_, a.dot);
    };
    add_kept(tile, load, PlainScore{}, sums);
  }

  template <class Which, class Products>
  __device__ __forceinline__ void multiply_dots(const Which& bands, int first,
                                                const Products& dots) const {
    if constexpr (Score::kProducts) {
      multiply_rows<T, D, kColumns>(
          problem_.score, bands, dot_rows(),
          [this](int band) -> const float(&)[2] { return row_sum_[band]; }, columns(stage_).dots,
          first, lane_, dots);
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
      score_pair(problem_, {batch_, head_}, visibility, first_key, chunk, warp_row(band), first,
                 entries(band), dots, t);
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
    weigh_pair<kColumns>(chunk, numbers_of_queries(Layout::kLse, band), t, weight[band]);
    if constexpr (kHalves) keep_operand(operands(0), band, packed(weight[band]));
    differentiate_cap<kFolds, kColumns>(problem_.soft_cap, t, weight[band], tangent);
  }

  /// From the gradients of a band's weights to those of its scores and dot products.
  __device__ __forceinline__ void differentiate(const Chunk<kTransposed>& chunk, int band,
                                                const Dots<kColumns, Score>& dots,
                                                const Numbers& tangent) {
    differentiate_pair<kFolds>(
        problem_, {batch_, head_}, entries(band), chunk, dots, weight[band], tangent,
        numbers_of_queries(Layout::kDelta, band),
        [&](int n, int e, float ds) {
          if constexpr (Score::kTokens) {
            return through_tokens(chunk, dots, n, e, ds);
          } else {
            return ds;
          }
        },
        d_score[band], gradient[band]);
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
};

}  // namespace phasescope::kernels::cuda
