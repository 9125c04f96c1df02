#pragma once
// The backward pass in Ampere form, the same bits every time: no atomics. Scores are computed again
// from q, k and the saved log-sum-exp, once for each result (one_pass_kernel.cuh has all of them
// from one pass, for some scores):
//
//   attention_delta_kernel      delta = d_out . out of a row
//   attention_sinks_kernel      gradients of the sinks, from these
//   attention_dq_kernel         a block of 64 or 128 queries goes over the tiles of keys
//   attention_dq_table_kernel   the same where a table's gradient is wanted: a block takes one or
//                               several such stretches of queries, and leaves sums by distance
//                               (TableSums), which table_gradient.cuh joins
//   attention_dkv_kernel        a block of 64 keys goes over the tiles of queries of its group's
//                               heads, with rows and columns of the products exchanged
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. one stage of copies, chunks of 32 columns to keep registers low.
//   2. where the registers do for it, warps of two times 16 rows, so that what is loaded of the
//      other operand feeds four products (TilePair).
//   3. a table's gradient is summed where dq is made, in place of a kernel that computed
//      all scores and their gradients once more for it (seven products a pair of tiles in place of
//      nine); not yet run.
//   4. one_pass_kernel.cuh: dq, dk and dv of a pair of tiles together (five products); not yet run.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/bands.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table_sums.cuh"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

/// delta of a row, one warp a row: grid.x blocks of four rows.
template <typename T>
struct DeltaLaunch {
  AttentionShape shape;
  int state_dim;
  DeviceSaved saved;
  float* delta;
};

template <typename T>
__device__ float dot_of_rows(const T* a, const T* b, int channels, int lane) {
  float sum = 0;
  for (int c = lane * 2; c < channels; c += 64) {
    const std::uint32_t x = *reinterpret_cast<const std::uint32_t*>(a + c);
    const std::uint32_t y = *reinterpret_cast<const std::uint32_t*>(b + c);
    sum += Half<T>::low(x) * Half<T>::low(y) + Half<T>::high(x) * Half<T>::high(y);
  }
  return sum;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    attention_delta_kernel(const __grid_constant__ DeltaLaunch<T> launch) {
  const AttentionShape& s = launch.shape;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * 4 + threadIdx.x / 32;
  if (at >= s.batch * s.heads * s.queries) return;
  const std::int64_t row = at % s.queries, head = at / s.queries % s.heads,
                     batch = at / s.queries / s.heads;
  const auto row_of = [&](const InputTensor& t) {
    return pointer<T>(t, batch, head) + row * t.row;
  };
  const DeviceSaved& saved = launch.saved;
  float sum =
      dot_of_rows(row_of(saved.out), row_of(saved.d_out), static_cast<int>(values_of(s)), lane);
  if (launch.state_dim > 0 && saved.d_out_state.data) {
    sum += dot_of_rows(row_of(saved.out_state), row_of(saved.d_out_state), launch.state_dim, lane);
  }
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (lane == 0) launch.delta[at] = sum;
}

/// Gradients of the sinks, one warp a head: minus the sum of the sink's weight times delta.
struct SinksLaunch {
  AttentionShape shape;
  const float* sinks;
  const float* lse;    // (B, heads, queries)
  const float* delta;  // likewise
  float* to;           // (heads)
};

static __global__ void __launch_bounds__(kThreads)
    attention_sinks_kernel(const __grid_constant__ SinksLaunch launch) {
  const AttentionShape& s = launch.shape;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.x) * 4 + threadIdx.x / 32;
  if (head >= s.heads) return;
  const float sink = launch.sinks[head] * kLog2e;
  float sum = 0;
  for (std::int64_t n = lane; n < s.batch * s.queries; n += 32) {
    const std::int64_t at = (n / s.queries * s.heads + head) * s.queries + n % s.queries;
    const float lse = launch.lse[at] * kLog2e;
    if (lse == -INFINITY) continue;  // the row sees no key: its delta is 0
    sum -= launch.delta[at] / (1 + exp2f(lse - sink));
  }
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (lane == 0) launch.to[head] = sum;
}

/// Times 16 rows of a warp (TilePair), of queries for dq and of keys for dk and dv: two where a
/// thread has registers for them, so that what is loaded of the columns feeds four products.
template <int D, DeviceScore Score>
inline constexpr int kQueryBands = kHasFewRegisters<Score>&& D <= 128 ? 2 : 1;
template <int D, DeviceScore Score>
inline constexpr int kKeyBands = kHasFewRegisters<Score>&& D == 64 ? 2 : 1;

/// Stages of what is copied for them: two where a block's shared memory has room.
template <int D, DeviceScore Score>
inline constexpr int kPairStages = kHasFewRegisters<Score>&& D == 64 ? 2 : 1;

/// In place of TableSums where no table's gradient is wanted.
struct NoSums {};

/// Where TableSums have shared memory: behind what a pair of tiles has, or, from 128 channels on,
/// in the first 32 rows of v, which are not read any more once all warps have the chunk of those
/// columns. A block then takes no more than without, and the least of devices has room for it.
template <int D, DeviceScore Score, int kValueDim = D>
struct TableSumsPlace {
  static constexpr int kTiles = kQueryBands<D, Score>;
  using Layout = PairLayout<D, Score, true, kTiles, kPairStages<D, Score>, 1, kValueDim>;
  using Sums = TableSums<kTiles>;
  static constexpr bool kInValues = kValueDim >= 128;
  static constexpr std::uint32_t kAt =
      kInValues ? Layout::tiles(Layout::kColumnTiles).values : Layout::kPairs;
  static constexpr int kBytes = Layout::kBytes + (kInValues ? 0 : Sums::kBytes);
  static_assert(!kInValues ||
                (kPairStages<D, Score> == 1 && Sums::kBytes <= kColumns * kValueDim * 2));
};

/// What a block writes of a part of the pairs, for its tiles of queries from index `query` on.
template <typename T, int D, int kValueDim, DeviceScore Score, class Sums>
__device__ __forceinline__ void compute_dq(const BackwardLaunch<Score>& launch, int part, int query,
                                           [[maybe_unused]] const Sums& sums) {
  constexpr bool kSums = !std::is_same_v<Sums, NoSums>;
  constexpr int kCount = kQueryBands<D, Score>;
  TilePair<T, D, false, Score, true, kCount, kPairStages<D, Score>, 1, kValueDim> pair(launch);
  pair.take_part(part);
  const int batch = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y);
  const Visibility visibility(launch.problem, batch, head, part);
  const BandTiles<kCount> tiles(launch.problem, visibility, query);
  float dq[kCount][D / 8][4] = {};
  [[maybe_unused]] float d_factor[2] = {0, 0}, d_bias[2] = {0, 0};
  if constexpr (Score::kOwn) {
    if (launch.own) pair.clear_own(batch, head, query, launch.own);
  }
  const auto next = [&](int tile) { return tiles.next(visibility, tile); };
  const auto fetch = [&](int tile) {
    pair.fetch_keys(batch, head / pair.group(), tile * kRows);
    pair.fetch_entries(head, query, tile * kRows);
  };
  pair.fetch_queries(batch, head, query);
  pair.for_each(tiles.begin(visibility), tiles.end(), next, fetch, [&](int tile) {
    const int key = tile * kRows;
    pair.start(head);
    tiles.with(visibility, tile, [&](const auto& bands) {
      for (int first = 0; first < kRows; first += kColumns) {
        pair.compute(visibility, query, key, first, bands, [&]([[maybe_unused]] int band) {
          if constexpr (kSums) {
            constexpr int kFirst = std::remove_cvref_t<decltype(bands)>::kFirst;
            // All warps have read the values that the sums take the place of.
            if (TableSumsPlace<D, Score, kValueDim>::kInValues && first == 0 && band == kFirst) {
              __syncthreads();
            }
            sums.add(band, first, pair.d_score[band]);
          }
        });
        pair.add_dots(bands, first, [&](int band) -> float(&)[D / 8][4] { return dq[band]; });
        if constexpr (Score::kOwn) {
          if (launch.own) pair.write_own(query, key, first, launch.own);
        }
        if constexpr (Score::kPieces) pair.add_factors(first, d_factor);
        if constexpr (Score::kTokens) {
          pair.add_rows(pair.d_score[0], d_bias);
          pair.add_rows(pair.d_factor, d_factor);
        }
      }
      if constexpr (kSums) sums.finish(bands, query / kRows, tile);
    });
  });
  const Score& score = launch.problem.score;
  const OutputTensor& to_dq =
      Score::kParts == 2 && part == kFar ? launch.gradients.far_dq : launch.gradients.dq;
#pragma unroll
  for (int band = 0; band < kCount; ++band) {
    pair.template write<D>(to_dq, batch, head, tiles.query_of(band), pair.queries(),
                           pair.channels(), dq[band],
                           [&](int channel) { return score.factor(channel); });
  }
  if constexpr (Score::kPieces) {
    const std::int64_t rows = (batch * launch.problem.shape.heads + head) * pair.queries();
    pair.write_rows(launch.factors + rows, query, pair.queries(), d_factor);
  }
  if constexpr (Score::kTokens) {
    const TokenGradients& to = launch.tokens;
    const std::int64_t rows = (batch * launch.problem.shape.heads + head) * pair.queries();
    if (to.query) pair.write_rows(to.query + rows, query, pair.queries(), d_bias);
    if (to.factor) pair.write_rows(to.factor + rows, query, pair.queries(), d_factor);
  }
}

template <typename T, int D, DeviceScore Score, int kValueDim = D>
__global__ void __launch_bounds__(kThreads)
    attention_dq_kernel(const __grid_constant__ BackwardLaunch<Score> launch) {
  // The longest rows first.
  const int place = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  for (int part = Score::kParts - 1; part >= 0; --part) {
    compute_dq<T, D, kValueDim>(launch, part, place * kQueryBands<D, Score> * kRows, NoSums{});
  }
}

/// The same with the table's gradient: grid.x blocks share a head's stretches of queries, each
/// block's sums by distance at launch.distances, (B, heads, grid.x, block_distances()).
template <typename T, int D, DeviceScore Score, int kValueDim = D>
__global__ void __launch_bounds__(kThreads)
    attention_dq_table_kernel(const __grid_constant__ BackwardLaunch<Score> launch) {
  static_assert(Score::kParts == 1);
  using Place = TableSumsPlace<D, Score, kValueDim>;
  const AttentionShape& shape = launch.problem.shape;
  const typename Place::Sums sums(shape, launch.distances, shared_memory() + Place::kAt);
  sums.clear();
  constexpr int kStretch = Place::kTiles * kRows;
  const int blocks = static_cast<int>(gridDim.x), own = static_cast<int>(blockIdx.x);
  const int count = (static_cast<int>(shape.queries) + kStretch - 1) / kStretch;
  // The longest rows first, then back and forth, so that each block has as many pairs.
  for (int turn = 0; turn * blocks < count; ++turn) {
    const int place = turn * blocks + (turn % 2 == 0 ? own : blocks - 1 - own);
    if (place < count) {
      compute_dq<T, D, kValueDim>(launch, 0, (count - 1 - place) * kStretch, sums);
    }
    __syncthreads();
  }
}

/// Writes dk of a part of the pairs, and adds to what all parts have in common.
template <int D, class Pair, DeviceScore Score, int kStates>
__device__ __forceinline__ void compute_dk(Pair& pair, const BackwardLaunch<Score>& launch,
                                           int part, float (&dv)[D / 8][4],
                                           [[maybe_unused]] float (&d_state)[kStates][4]) {
  pair.take_part(part);
  const int batch = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(blockIdx.x) * kRows;  // the longest columns first
  Visibility visibility(launch.problem, batch);
  Stretch tiles{};
  if constexpr (Score::kParts == 1) tiles = visibility.query_tiles(key);
  float dk[D / 8][4] = {};
  pair.fetch_keys(batch, kv_head, key);
  for (int n = 0; n < pair.group(); ++n) {
    const int head = kv_head * pair.group() + n;
    if constexpr (Score::kParts > 1) {
      visibility = Visibility(launch.problem, batch, head, part);
      tiles = visibility.query_tiles(key);
    }
    [[maybe_unused]] float d_bias[2] = {0, 0};
    for (int tile = tiles.first; tile < tiles.last; ++tile) {
      const int query = tile * kRows;
      if (!visibility.may_share_document(query, key)) continue;
      pair.fetch_queries(batch, head, query);
      pair.begin(head, query, key);
      for (int first = 0; first < kRows; first += kColumns) {
        pair.compute(visibility, query, key, first);
        pair.add_values(first, dv);
        pair.add_dots(first, dk);
        if constexpr (Score::kState) pair.add_state(first, d_state);
        if constexpr (Score::kTokens) pair.add_rows(pair.d_score[0], d_bias);
      }
      __syncthreads();
    }
    if constexpr (Score::kTokens) {
      float* to = launch.tokens.key;
      const std::int64_t rows = (batch * launch.problem.shape.heads + head) * pair.keys();
      if (to) pair.write_rows(to + rows, key, pair.keys(), d_bias);
    }
  }
  commit_copies();
  wait_copies<0>();
  const Score& score = launch.problem.score;
  const OutputTensor& to =
      Score::kParts == 2 && part == kFar ? launch.gradients.far_dk : launch.gradients.dk;
  pair.template write<D>(to, batch, kv_head, key, pair.keys(), pair.channels(), dk,
                         [&](int channel) { return score.factor(channel); });
}

/// dk and dv by warps of 16 keys, which need nothing of each other.
template <typename T, int D, DeviceScore Score>
__device__ __forceinline__ void sum_by_warps(const BackwardLaunch<Score>& launch) {
  using Pair = TilePair<T, D, true, Score>;
  Pair pair(launch);
  float dv[D / 8][4] = {};
  [[maybe_unused]] float d_state[Score::kState ? Pair::kStateDim / 8 : 1][4] = {};
  for (int part = Score::kParts - 1; part >= 0; --part) {
    compute_dk<D>(pair, launch, part, dv, d_state);
  }
  const int batch = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(blockIdx.x) * kRows;
  const auto once = [](int) { return 1.0f; };
  const DeviceGradients& to = launch.gradients;
  pair.template write<D>(to.dv, batch, kv_head, key, pair.keys(), pair.value_channels(), dv, once);
  if constexpr (Score::kState) {
    if (to.d_state.data) {
      pair.template write<Pair::kStateDim>(to.d_state, batch, kv_head, key, pair.keys(),
                                           pair.state_channels(), d_state, once);
    }
  }
}

/// dk and dv by warps of 32 keys, half of the queries and then half of the channels.
template <typename T, int D, DeviceScore Score>
__device__ __forceinline__ void sum_by_halves(const BackwardLaunch<Score>& launch) {
  TilePair<T, D, true, Score, true, 2, kPairStages<D, Score>> pair(launch);
  const int batch = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(blockIdx.x) * kRows;  // the longest columns first
  const Visibility visibility(launch.problem, batch);
  const Stretch tiles = visibility.query_tiles(key);
  // Places are tiles of queries, head by head.
  const int count = max(0, tiles.last - tiles.first), end = count * pair.group();
  const auto head_of = [&](int place) { return kv_head * pair.group() + place / count; };
  const auto query_of = [&](int place) { return (tiles.first + place % count) * kRows; };
  const auto next = [&](int place) {
    while (place < end && !visibility.may_share_document(query_of(place), key)) ++place;
    return place;
  };
  const auto fetch = [&](int place) {
    pair.fetch_queries(batch, head_of(place), query_of(place));
    pair.fetch_entries(head_of(place), query_of(place), key);
  };
  float dk[2][D / 16][4] = {}, dv[2][D / 16][4] = {};
  pair.fetch_keys(batch, kv_head, key);
  pair.for_each(next(0), end, next, fetch, [&](int place) {
    pair.start(head_of(place));
    pair.compute(visibility, query_of(place), key, pair.own_chunk(), Bands<0, 2>{});
    pair.keep_gradients();
    __syncthreads();
    pair.add_kept_values(dv);
    pair.add_kept_dots(dk);
  });
  const Score& score = launch.problem.score;
  pair.write_kept(launch.gradients.dk, batch, kv_head, key, pair.channels(), dk,
                  [&](int channel) { return score.factor(channel); });
  pair.write_kept(launch.gradients.dv, batch, kv_head, key, pair.value_channels(), dv,
                  [](int) { return 1.0f; });
}

/// Calls call(head, query) for the pairs of a tile of keys and the tiles of queries of its group's
/// heads, once what the pair needs is there. All threads call it.
template <class Pair, class Call>
__device__ __forceinline__ void for_each_query_tile(Pair& pair, const Visibility& visibility,
                                                    int key, const Call& call) {
  const int batch = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const Stretch tiles = visibility.query_tiles(key);
  for (int n = 0; n < pair.group(); ++n) {
    const int head = kv_head * pair.group() + n;
    for (int tile = tiles.first; tile < tiles.last; ++tile) {
      const int query = tile * kRows;
      if (!visibility.may_share_document(query, key)) continue;
      pair.fetch_queries(batch, head, query);
      pair.begin(head, query, key);
      for (int first = 0; first < kRows; first += kColumns) call(query, first);
      __syncthreads();
    }
  }
}

/// dv and then dk by warps of 16 keys, of wide heads: a thread has registers for the sums of one of
/// them. The scores are computed once more for that.
template <typename T, int D, int kValueDim, DeviceScore Score>
__device__ __forceinline__ void sum_in_turn(const BackwardLaunch<Score>& launch) {
  static_assert(Score::kParts == 1 && !Score::kState && !Score::kTokens);
  TilePair<T, D, true, Score, true, 1, 1, 1, kValueDim> pair(launch);
  const int batch = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(blockIdx.x) * kRows;  // the longest columns first
  const Visibility visibility(launch.problem, batch);
  pair.fetch_keys(batch, kv_head, key);
  {
    float dv[kValueDim / 8][4] = {};
    for_each_query_tile(pair, visibility, key, [&](int query, int first) {
      pair.compute_weights(visibility, query, key, first);
      pair.add_values(first, dv);
    });
    pair.template write<kValueDim>(launch.gradients.dv, batch, kv_head, key, pair.keys(),
                                   pair.value_channels(), dv, [](int) { return 1.0f; });
  }
  float dk[D / 8][4] = {};
  for_each_query_tile(pair, visibility, key, [&](int query, int first) {
    pair.compute(visibility, query, key, first);
    pair.add_dots(first, dk);
  });
  commit_copies();
  wait_copies<0>();
  const Score& score = launch.problem.score;
  pair.template write<D>(launch.gradients.dk, batch, kv_head, key, pair.keys(), pair.channels(), dk,
                         [&](int channel) { return score.factor(channel); });
}

/// At least one block: without, ptxas gives TAPE's 32 registers at 128 channels (sm_80).
template <typename T, int D, DeviceScore Score, int kValueDim = D>
__global__ void __launch_bounds__(kThreads, 1)
    attention_dkv_kernel(const __grid_constant__ BackwardLaunch<Score> launch) {
  if constexpr (D > 128) {
    sum_in_turn<T, D, kValueDim>(launch);
  } else if constexpr (kKeyBands<D, Score> == 2) {
    sum_by_halves<T, D>(launch);
  } else {
    sum_by_warps<T, D>(launch);
  }
}

}  // namespace phasescope::kernels::cuda
