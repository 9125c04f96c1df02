#pragma once
// CAPE's backward pass, a strip of query rows and keys of a batch entry at a time, after
// cape_kernel.cuh has left the strip's content scores and scores. No atomics: what strips add to is
// added in their order.
//
//   cape_dv_kernel         a block of 64 keys: weights, dv, and d score in the place of the scores
//   cape_gradients_kernel  a block for each pair of tiles: d score of all heads through the
//                          network, d content in its place; the pair's sums for the weights and by
//                          diagonal
//   cape_sums.cuh          adds these sums to those of the strips before
//   cape_dq_kernel         a block of 64 queries: d content . k
//   cape_dk_kernel         a block of 64 keys: d content . q, transposed
//
// dk and dv of a strip's keys are summed over strips of queries, dq of its queries over strips of
// keys. Where keys come in several strips, memory has no room for both, and all is computed twice:
// keys by keys without dq, then queries by queries for it alone.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cape_fire.cuh"
#include "kernels/cuda/cape_kernel.cuh"
#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

/// Of the strips of so many texts; grid.z but for the sums of what they leave.
struct CapeGradientLaunch {
  BackwardLaunch<StoredScore> pairs;  // its strip: scores, d score, d content in turn
  Strip content;
  CapeNetwork network;
  CapeMemory memory;
  float scale;
  bool with_sums;  // dk, dv and the network's gradients are taken
  unsigned texts;

  __device__ bool begins() const { return content.first == 0; }
  __device__ bool ends() const { return content.last == pairs.problem.shape.queries; }
  __device__ int key_tiles() const {
    return static_cast<int>(tiles_of(content.last_key - content.first_key));
  }
  /// Of one of the texts, a pair of tiles' by its number.
  __device__ float* slot(unsigned text, int pair) const {
    const std::int64_t pairs = tiles_of(content.last - content.first) * key_tiles();
    return memory.slots + (text * pairs + pair) * memory.slot.floats();
  }
};

/// Sums of 64 keys of a kv head that strips of queries add to: after the last one to `to`.
template <typename T, int D>
__device__ __forceinline__ void add_keys(const CapeGradientLaunch& launch, const OutputTensor& to,
                                         float* between, int kv_head, int key, float factor,
                                         float (&sums)[D / 8][4]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Strip& strip = launch.content;
  const AttentionShape& shape = launch.pairs.problem.shape;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = key + warp * 16 + lane / 4 + 8 * half;
    float* kept = between + (kv_head * strip.keys + row - strip.first_key) * D + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& sum = sums[d][2 * half + e];
        if (!launch.begins()) sum += kept[d * 8 + e];
        if (!launch.ends()) kept[d * 8 + e] = sum;
      }
    }
    if (!launch.ends() || row >= shape.keys) continue;
    write_row<T, D>(
        pointer<T>(to, batch_of(launch.pairs.problem), kv_head) + row * to.row, sums, half,
        [factor](int) { return factor; }, static_cast<int>(shape.head_dim), lane);
  }
}

/// The strip's queries that are in the tiles which see the tile of keys, as call(head, query).
template <class Call>
__device__ __forceinline__ void for_each_query_tile(const CapeGradientLaunch& launch, int kv_head,
                                                    int key, const Call& call) {
  const Problem<StoredScore>& problem = launch.pairs.problem;
  const Visibility visibility(problem, batch_of(problem));
  const int group = static_cast<int>(problem.shape.heads / problem.shape.kv_heads);
  const Strip& strip = launch.content;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int query = static_cast<int>(strip.first); query < strip.last; query += kRows) {
      if (visibility.sees(query, key)) call(head, query);
    }
  }
}

/// grid.x tiles of the strip's keys, grid.y kv heads, grid.z texts.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads)
    cape_dv_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  TilePair<T, D, true, StoredScore> pair(launch.pairs);
  const Problem<StoredScore>& problem = launch.pairs.problem;
  const int batch = batch_of(problem), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(launch.content.first_key) + static_cast<int>(blockIdx.x) * kRows;
  const Visibility visibility(problem, batch);
  float dv[D / 8][4] = {};
  pair.fetch_keys(batch, kv_head, key);
  for_each_query_tile(launch, kv_head, key, [&](int head, int query) {
    pair.fetch_queries(batch, head, query);
    pair.begin(head, query, key);
    for (int first = 0; first < kRows; first += kColumns) {
      pair.compute(visibility, query, key, first);
      if (launch.with_sums) pair.add_values(first, dv);
      const Chunk<true> chunk(0, 0, first, pair.warp(), pair.lane());
      for_each_stored<kColumns>(
          problem.score.strip, head, query, key, chunk,
          [&](int n, int e, float& d_score) { d_score = pair.d_score[0][n][e]; });
    }
    __syncthreads();
  });
  commit_copies();
  wait_copies<0>();
  if (!launch.with_sums) return;
  add_keys<T, D>(launch, launch.pairs.gradients.dv, launch.memory.dv, kv_head, key, 1, dv);
}

/// grid.x tiles of the strip's queries, grid.y heads, grid.z texts.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads)
    cape_dq_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  const Problem<StoredScore>& problem = launch.pairs.problem;
  const AttentionShape& shape = problem.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int batch = batch_of(problem), head = static_cast<int>(blockIdx.y);
  const int kv_head = head / static_cast<int>(shape.heads / shape.kv_heads);
  const Strip& strip = launch.content;
  const int query = static_cast<int>(strip.first) + static_cast<int>(blockIdx.x) * kRows;
  const Visibility visibility(problem, batch);
  const std::uint32_t tile = shared_memory();
  float dq[D / 8][4] = {};
  for (int key = static_cast<int>(strip.first_key); key < strip.last_key; key += kRows) {
    if (!visibility.sees(query, key)) continue;
    copy_tile<T, D>(tile, pointer<T>(problem.k, batch, kv_head), problem.k.row, key,
                    static_cast<int>(shape.keys), static_cast<int>(shape.head_dim));
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    for (int first = 0; first < kRows; first += kColumns) {
      float d_content[kColumns / 8][4];
      const Chunk<false> chunk(0, 0, first, warp, lane);
      for_each_stored<kColumns>(problem.score.strip, head, query, key, chunk,
                                [&](int n, int e, float d) { d_content[n][e] = d; });
      accumulate<T, D, kColumns>(d_content, tile, first, lane, dq);
    }
    __syncthreads();
  }
  const OutputTensor& to = launch.pairs.gradients.dq;
  const bool ends = strip.last_key == shape.keys;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + warp * 16 + lane / 4 + 8 * half;
    float* kept = launch.memory.dq + (head * strip.rows + row - strip.first) * D + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& sum = dq[d][2 * half + e];
        if (strip.first_key > 0) sum += kept[d * 8 + e];
        if (!ends) kept[d * 8 + e] = sum;
      }
    }
    if (!ends || row >= shape.queries) continue;
    write_row<T, D>(
        pointer<T>(to, batch, head) + row * to.row, dq, half, [&](int) { return launch.scale; },
        static_cast<int>(shape.head_dim), lane);
  }
}

/// grid.x tiles of the strip's keys, grid.y kv heads, grid.z texts.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads)
    cape_dk_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  const Problem<StoredScore>& problem = launch.pairs.problem;
  const AttentionShape& shape = problem.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int batch = batch_of(problem), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(launch.content.first_key) + static_cast<int>(blockIdx.x) * kRows;
  const std::uint32_t tile = shared_memory();
  float dk[D / 8][4] = {};
  for_each_query_tile(launch, kv_head, key, [&](int head, int query) {
    copy_tile<T, D>(tile, pointer<T>(problem.q, batch, head), problem.q.row, query,
                    static_cast<int>(shape.queries), static_cast<int>(shape.head_dim));
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    for (int first = 0; first < kRows; first += kColumns) {
      float d_content[kColumns / 8][4];
      const Chunk<true> chunk(0, 0, first, warp, lane);
      for_each_stored<kColumns>(problem.score.strip, head, query, key, chunk,
                                [&](int n, int e, float d) { d_content[n][e] = d; });
      accumulate<T, D, kColumns>(d_content, tile, first, lane, dk);
    }
    __syncthreads();
  });
  add_keys<T, D>(launch, launch.pairs.gradients.dk, launch.memory.dk, kv_head, key, launch.scale,
                 dk);
}

static_assert(cuda_cape_bytes(4, 4) == 4 * (4 * cape_pair(4, 0) + cape_piece(4 + 4, 0) +
                                            cape_weight(2 * 4, 0, 4) + kThreads + kRows + 6 * 32) &&
                  cape_piece(1, 0) >= cape_diagonal(1, 0),
              "what CapeGradientBlock places, over FIRE or not");

/// The network's backward pass over a pair of tiles, 32 pairs of a query row at a time, by products
/// of tf32 numbers in two parts as forward: a warp has every fourth tile of eight heads or eight
/// hidden units. Where sums go by pair a lane has one, a warp every fourth row.
template <bool kFire>
class CapeGradientBlock {
 public:
  __device__ explicit CapeGradientBlock(const CapeGradientLaunch& launch)
      : launch_(launch),
        net_(launch.network),
        strip_(launch.pairs.problem.score.strip),
        contents_(launch.content),
        heads_(static_cast<int>(net_.heads)),
        hidden_(static_cast<int>(net_.cape.hidden)),
        units_(static_cast<int>(launch.memory.units)),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % 32),
        warp_(thread_ / 32),
        content_(shared_memory()),
        d_score_(content_ + size(heads_ * kPairRow)),
        active_(d_score_ + size(heads_ * kPairRow)),
        d_hidden_(active_ + size(units_ * kPairRow)),
        weights_(d_hidden_ + size(units_ * kPairRow)),
        diagonals_(weights_ + size(2 * heads_ * units_)),
        fire_(diagonals_, hidden_, heads_) {}

  __device__ void run() {
    const Visibility visibility(launch_.pairs.problem, batch_of(launch_.pairs.problem));
    const int tile = static_cast<int>(blockIdx.x), columns = launch_.key_tiles();
    const int query = static_cast<int>(strip_.first) + tile / columns * kRows;
    const int key = static_cast<int>(strip_.first_key) + tile % columns * kRows;
    if (!visibility.sees(query, key)) return;
    for (int n = thread_; n < sums(); n += kThreads) put(weights_, n, 0);
    const int last = min(kRows, static_cast<int>(strip_.last) - query);
    for (int row = 0; row < last; ++row) {
      for (int column = 0; column < kRows; column += 32) take(query, key, row, column + lane_);
    }
    if (!launch_.with_sums) return;
    __syncthreads();
    float* slot = launch_.slot(blockIdx.z, tile);
    for (int n = thread_; n < sums(); n += kThreads) slot[n] = get(weights_, n);
  }

 private:
  __device__ static std::uint32_t size(int floats) {
    return static_cast<std::uint32_t>(floats) * 4;
  }
  /// That a slot has.
  __device__ int sums() const {
    const int rows = hidden_ + heads_;
    return cape_weight(2 * heads_, 0, units_) +
           (kFire ? static_cast<int>(cape_piece(rows, 0)) + kThreads + kRows
                  : cape_diagonal(rows, 0));
  }
  __device__ static float get(std::uint32_t array, int n) {
    return load_shared<float>(array + size(n));
  }
  __device__ static void put(std::uint32_t array, int n, float x) {
    store_shared(array + size(n), x);
  }
  __device__ static void add(std::uint32_t array, int n, float x) {
    put(array, n, get(array, n) + x);
  }

  /// The pair of a row and a column of the tiles that begin at `query` and `key`.
  __device__ void take(int query, int key, int row, int column) {
    __syncthreads();
    for (int h = warp_; h < heads_; h += 4) {
      const float content = *contents_.at(h, query + row, key + column);
      const float d = *strip_.at(h, query + row, key + column);
      // An infinite content score whose pair has no weight gives nothing: 0 times it would be NaN.
      put(content_, cape_pair(h, lane_), d == 0 && fabsf(content) == INFINITY ? 0 : content);
      put(d_score_, cape_pair(h, lane_), d);
    }
    const int diagonal = row - column + kRows - 1;
    const int position = query + row + static_cast<int>(launch_.pairs.problem.shape.query_offset);
    const int distance = position - (key + column);
    const auto place = net_.template place<kFire>(query + row, distance);
    if constexpr (kFire) {
      if (warp_ == 0) fire_.keep(net_, place, lane_);
    }
    __syncthreads();
    const int first = column - lane_, group = lane_ / 4 * 4;
    for (int tile = warp_; tile < net_.unit_tiles(); tile += 4) {
      through_units(tile, query + row, position - key - first - group);
    }
    __syncthreads();
    for (int tile = warp_; tile < net_.head_tiles(); tile += 4) {
      leave_contents(tile, query + row, key + first + group);
    }
    if (!launch_.with_sums) return;
    float d_place = 0;
    for (int n = warp_; n < hidden_ + heads_; n += 4) {
      const float gradient = n < hidden_ ? get(d_hidden_, cape_pair(n, lane_))
                                         : get(d_score_, cape_pair(n - hidden_, lane_));
      add_row(n, place, diagonal, gradient, d_place);
    }
    const int weight_tiles = (heads_ + 15) / 16 * net_.unit_tiles();
    for (int n = warp_; n < 2 * weight_tiles; n += 4) {
      const int tile = n % weight_tiles;
      add_weights(n / weight_tiles, tile / net_.unit_tiles() * 16, tile % net_.unit_tiles() * 8);
    }
    if constexpr (kFire) {
      fire_.add_pieces(d_hidden_, d_score_);
      fire_.keep_part(warp_, lane_, d_place);
      __syncthreads();
      if (warp_ == 0) fire_.add_places(net_, lane_, query + row, distance, row, diagonal);
    }
  }

  /// The gradient of a row of the biases' part.
  __device__ void add_row(int row, const CapePlace<kFire>& place, int diagonal, float gradient,
                          float& d_place) const {
    if constexpr (kFire) {
      d_place = fmaf(gradient, net_.piece(row, place.segment).x, d_place);
    } else {
      add(diagonals_, cape_diagonal(row, diagonal), gradient);
    }
  }

  /// The lane's two of a tile's eight rows of one of the arrays, as call(c, row), where there are
  /// so many.
  template <class Call>
  __device__ __forceinline__ void for_each_row(int tile, int count, const Call& call) const {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int row = tile * 8 + lane_ % 4 * 2 + c;
      if (row < count) call(c, row);
    }
  }
  __device__ static std::uint32_t place_of(int row, int lane) {
    return size(cape_pair(row, lane / 4 * 4));
  }
  /// Those rows as columns of the pairs.
  __device__ __forceinline__ CapeColumns columns_of(std::uint32_t array, int tile,
                                                    int count) const {
    CapeColumns columns;
    for_each_row(tile, count, [&](int c, int row) {
      const auto numbers = load_shared<Numbers<4>>(array + place_of(row, lane_));
#pragma unroll
      for (int e = 0; e < 4; ++e) columns.at(e, c) = numbers.x[e];
    });
    return columns;
  }

  /// Eight hidden units after the rectifier, and the gradients before it; `distance` is that of the
  /// lane's first pair.
  __device__ void through_units(int tile, int query, int distance) {
    CapeColumns before, d;
    for_each_row(tile, hidden_, [&](int c, int unit) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        before.at(e, c) = net_.at(unit, net_.template place<kFire>(query, distance - e));
      }
    });
    for (int heads = 0; heads < net_.head_tiles(); ++heads) {
      CapeOperands operands;
      operands.set(columns_of(content_, heads, heads_));
      operands.multiply(net_.weights(kHeadsToUnits, heads, tile, lane_), before);
      operands.set(columns_of(d_score_, heads, heads_));
      operands.multiply(net_.weights(kScoresToUnits, heads, tile, lane_), d);
    }
    for_each_row(tile, units_, [&](int c, int unit) {
      Numbers<4> active, d_hidden;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        active.x[e] = leaky(before.at(e, c));
        d_hidden.x[e] = before.at(e, c) > 0 ? d.at(e, c) : 0.01f * d.at(e, c);
      }
      store_shared(active_ + place_of(unit, lane_), active);
      store_shared(d_hidden_ + place_of(unit, lane_), d_hidden);
    });
  }

  /// d content of eight heads, of four keys from `key` on.
  __device__ void leave_contents(int tile, int query, int key) const {
    CapeColumns sums = columns_of(d_score_, tile, heads_);
    for (int units = 0; units < net_.unit_tiles(); ++units) {
      CapeOperands operands;
      operands.set(columns_of(d_hidden_, units, units_));
      operands.multiply(net_.weights(kUnitsToContents, tile, units, lane_), sums);
    }
    for_each_row(tile, heads_, [&](int c, int head) {
      Numbers<4> d_content;
#pragma unroll
      for (int e = 0; e < 4; ++e) d_content.x[e] = sums.at(e, c);
      *reinterpret_cast<Numbers<4>*>(strip_.at(head, query, key)) = d_content;
    });
  }

  /// Of 16 heads and eight hidden units: d w1_A, or d w2.
  __device__ void add_weights(int layer, int first_head, int first_unit) {
    const std::uint32_t heads = layer == 0 ? content_ : d_score_;
    const std::uint32_t units = layer == 0 ? d_hidden_ : active_;
    const int row = lane_ / 4, place = lane_ % 4;
    const auto number = [](std::uint32_t array, int n, int count, int pair) {
      return n < count ? get(array, cape_pair(n, pair)) : 0;
    };
    float sums[4] = {};
#pragma unroll
    for (int pair = 0; pair < 32; pair += 8) {
      CapeOperand operand;
      CapeWeights columns;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        operand.set(r,
                    number(heads, first_head + row + r % 2 * 8, heads_, pair + place + r / 2 * 4));
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const Tf32Parts parts(number(units, first_unit + row, units_, pair + place + r * 4));
        columns.high[r] = parts.high;
        columns.low[r] = parts.low;
      }
      operand.multiply(columns, sums);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int head = first_head + row + n / 2 * 8, unit = first_unit + place * 2 + n % 2;
      if (head < heads_ && unit < units_) {
        add(weights_, cape_weight(layer * heads_ + head, unit, units_), sums[n]);
      }
    }
  }

  const CapeGradientLaunch& launch_;
  const CapeNetwork& net_;
  const Strip &strip_, &contents_;
  int heads_, hidden_, units_, thread_, lane_, warp_;
  std::uint32_t content_, d_score_;  // (heads, kPairRow)
  std::uint32_t active_, d_hidden_;  // (units, kPairRow)
  std::uint32_t weights_;            // (2, heads, units)
  std::uint32_t diagonals_;          // (hidden + heads, kThreads), or fire_'s
  CapeFireSums fire_;
};

/// grid.x the strip's pairs of tiles, keys first; grid.z texts.
template <bool kFire>
__global__ void __launch_bounds__(kThreads)
    cape_gradients_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  CapeGradientBlock<kFire>(launch).run();
}

}  // namespace phasescope::kernels::cuda
