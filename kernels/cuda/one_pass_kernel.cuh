#pragma once
// The backward pass in one kernel: a block of 128 keys goes over the tiles of queries of its
// group's heads, and makes dk, dv and its part of dq of each pair of tiles, so that scores and the
// gradients of weights are computed once (five products a pair in place of seven, with TAPE's
// states seven in place of ten). Gradients of scores go through shared memory once, for dk and for
// dq, those of TAPA's phases after them; a table's gradient is summed where they are. Parts of dq
// are float32 sums in the workspace: of each group of blocks' keys its own, joined in the order of
// groups (the same bits every time), or one that all blocks add to atomically. What takes this
// form, and how much memory, says one_pass() of launchers.h.

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "kernels/cuda/backward_kernel.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/table_sums.cuh"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kOnePassTiles = kOnePassKeys / kRows;
inline constexpr int kOnePassThreads = kOnePassTiles * kThreads;

/// Whether there is that form: with states, whose gradients a thread sums too, of heads of 64.
template <int D, DeviceScore Score>
inline constexpr bool kHasOnePass = kIsOfTiles<Score>&& one_pass_bytes(D, Score::kState) > 0;

template <DeviceScore Score>
struct OnePassLaunch {
  BackwardLaunch<Score> pass;  // distances: (B, heads, partials, block_distances()), null: unwanted
  OnePass plan;
  float* sums;          // (units of the launch, partials, heads of one, tiles of queries, kRows D)
  std::uint8_t* taken;  // (likewise but for the last): whether a sum is there; null: all are
  std::int64_t first_unit;
  // Of the shape, worked out once: a thread would hold them in registers.
  int group, query_tiles, key_tiles;  // heads of a unit, tiles
  int shift;                          // 1 << shift is query_tiles at least
  std::int64_t distances;             // block_distances()

  /// Where the sum of a tile of queries is among the others.
  __device__ std::int64_t tile_of(int unit, int partial, int head, int query_tile) const {
    const std::int64_t heads = unit * static_cast<std::int64_t>(plan.partials) + partial;
    return (heads * group + head) * query_tiles + query_tile;
  }
  /// A table's sums of a head of the whole batch.
  __device__ float* distances_of(std::int64_t head, int partial) const {
    return pass.distances + (head * plan.partials + partial) * distances;
  }
};

template <int D, DeviceScore Score>
using OnePassLayout = PairLayout<D, Score, true, 1, 2, kOnePassTiles>;
template <typename T, int D, DeviceScore Score>
using OnePassPair = TilePair<T, D, true, Score, true, 2, 2, kOnePassTiles>;

/// What a thread has of dq of a tile of queries: of one half of these and a quarter of the
/// channels, in the order in which the block's threads keep it in memory.
template <typename T, int D>
struct DqPart {
  static constexpr int kChannels = D / 4;
  float sums[2][kChannels / 8][4];

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int row(int band) { return warp() % 2 * 32 + band * 16; }
  __device__ static int channel() { return warp() / 2 * kChannels; }

  /// Calls call(number, its place among the tile's kRows D).
  template <class Call>
  __device__ __forceinline__ void for_each(const Call& call) {
#pragma unroll
    for (int n = 0; n < 2 * kChannels / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        call(sums[n / (kChannels / 8)][n % (kChannels / 8)][e],
             (n * 4 + e) * kOnePassThreads + static_cast<int>(threadIdx.x));
      }
    }
  }

  /// sums += the kept gradients of a tile of keys, rows and columns exchanged, . k.
  template <class Pair>
  __device__ __forceinline__ void add(const Pair& pair, int tile) {
    const std::uint32_t keys = pair.keys_of_tile(tile);
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      GradientOperands a[2];
#pragma unroll
      for (int band = 0; band < 2; ++band) pair.load_kept_exchanged(tile, n, row(band), a[band]);
#pragma unroll
      for (int d = 0; d < kChannels / 16; ++d) {
        const int own = channel() / 16 + d;
        std::uint32_t b[4];
        load_values<D>(keys, n * 16, own, pair.lane(), b);
#pragma unroll
        for (int band = 0; band < 2; ++band) {
          multiply_gradients<T>(pair.score(), a[band], own, pair.lane(), b, sums[band][2 * d],
                                sums[band][2 * d + 1]);
        }
      }
    }
  }
};

/// Which of a block's tiles of keys a tile of queries sees.
struct SeenTiles {
  bool first, second;

  __device__ bool any() const { return first || second; }
  __device__ bool of(int tile) const { return tile == 0 ? first : second; }
};

/// Of the tiles of keys from `key` on: the tiles of queries that see any, and which of them.
class KeyTiles {
 public:
  /// All lanes of a warp call it.
  __device__ KeyTiles(const Visibility& visibility, int key, int keys)
      : key_(key), queries_(visibility.query_tiles(key)), real_{} {
    const bool two = key + kRows < keys;
    real_ = {!visibility.real_keys(key / kRows).none(),
             two && !visibility.real_keys(key / kRows + 1).none()};
    if (!two) return;
    const Stretch other = visibility.query_tiles(key + kRows);
    if (other.first >= other.last) return;
    const bool alone = queries_.first >= queries_.last;
    queries_ = {alone ? other.first : min(queries_.first, other.first),
                alone ? other.last : max(queries_.last, other.last)};
  }
  __device__ int first() const { return queries_.first; }
  __device__ int last() const { return queries_.last; }
  __device__ SeenTiles seen(const Visibility& visibility, int query) const {
    return {real_.first && visibility.sees(query, key_),
            real_.second && visibility.sees(query, key_ + kRows)};
  }

 private:
  int key_;
  Stretch queries_;
  SeenTiles real_;
};

/// A pair's part of dq to the tile's sum: the block's own, which it begins where none `follows`, or
/// that of all. Calls add() between its loads and its products.
template <typename T, int D, DeviceScore Score, class Pair, class Add>
__device__ __forceinline__ void add_dq(const OnePassLaunch<Score>& launch, const Pair& pair,
                                       std::int64_t tile, bool follows, const SeenTiles& seen,
                                       const Add& add) {
  DqPart<T, D> dq;
  float* to = launch.sums + tile * (kRows * D);
  dq.for_each([&](float& x, int place) { x = follows ? to[place] : 0; });
  add();
  if (seen.first) dq.add(pair, 0);
  if (seen.second) dq.add(pair, 1);
  if (launch.taken) {
    dq.for_each([&](float& x, int place) { to[place] = x; });
  } else {
    dq.for_each([&](float& x, int place) { atomicAdd(to + place, x); });
  }
}

/// The pair of a tile of queries and the warp's keys: weights go to shared memory, and of two dot
/// products the first one's gradients. `left`: those of the other one, or of the only one, whose
/// place is still taken. Calls add(band) once d_score of a band is there.
template <DeviceScore Score, class Pair, class Add>
__device__ __forceinline__ void compute_pair(Pair& pair, const Visibility& visibility, int query,
                                             int key, typename Pair::Packed (&left)[2],
                                             const Add& add) {
  const auto compute = [&](const auto& bands) {
    pair.compute(visibility, query, key, pair.own_chunk(), bands, [&](int band) {
      add(band);
      if constexpr (Score::kDots == 2) {
        pair.keep_gradients(band, pair.packed_gradients(band));
        left[band] = pair.packed_phases(band);
      } else {
        left[band] = pair.packed_gradients(band);
      }
    });
  };
  if constexpr (Score::kDots == 2) {
    // A thread has no registers for the products of both bands.
    compute(Bands<0, 1>{});
    compute(Bands<1, 2>{});
  } else {
    compute(Bands<0, 2>{});
  }
}

/// dk, dv and, with states, d_state of the keys from `key` on, and what they give to dq and the
/// table.
template <typename T, int D, DeviceScore Score>
__device__ __forceinline__ void take_keys(const OnePassLaunch<Score>& launch,
                                          OnePassPair<T, D, Score>& pair, int key) {
  using Pair = OnePassPair<T, D, Score>;
  const BackwardLaunch<Score>& pass = launch.pass;
  const AttentionShape& shape = pass.problem.shape;
  const std::int64_t unit = launch.first_unit + blockIdx.y;
  const int batch = static_cast<int>(unit / shape.kv_heads),
            kv_head = static_cast<int>(unit % shape.kv_heads);
  const int partial = launch.taken ? static_cast<int>(blockIdx.x) : 0;
  const int own_key = key + pair.key_tile() * kRows;
  const Visibility visibility(pass.problem, batch);
  const KeyTiles tiles(visibility, key, pair.keys());
  // Places are tiles of queries, head by head.
  const int end = launch.group << launch.shift;
  const auto tile_of = [&](int place) { return place & ((1 << launch.shift) - 1); };
  const auto head_of = [&](int place) { return kv_head * launch.group + (place >> launch.shift); };
  const auto next = [&](int place) {
    for (; place < end; ++place) {
      const int tile = tile_of(place);
      if (tile >= tiles.last()) place |= (1 << launch.shift) - 1;
      if (tile < tiles.last() && tiles.seen(visibility, tile * kRows).any()) break;
    }
    return place;
  };
  const auto fetch = [&](int place) {
    pair.fetch_queries(batch, head_of(place), tile_of(place) * kRows);
    pair.fetch_entries(head_of(place), tile_of(place) * kRows, key);
  };
  constexpr bool kTwoDots = Score::kDots == 2, kTable = Score::kEntries && !kTwoDots;
  static_assert(!kTwoDots || !Score::kState);  // phases take the place of weights
  float dk[2][D / 16][4] = {}, dv[2][D / 16][4] = {};
  [[maybe_unused]] float d_state[2][D / 16][4] = {};
  pair.fetch_keys(batch, kv_head, key);
  pair.for_each(next(tiles.first()), end, next, fetch, [&](int place) {
    const int tile = tile_of(place);
    const SeenTiles seen = tiles.seen(visibility, tile * kRows);
    const bool own = seen.of(pair.key_tile());
    pair.start(head_of(place));
    typename Pair::Packed left[2];
    [[maybe_unused]] const KeyTableSums sums(pair.kept_gradients(0));
    if (own) {
      compute_pair<Score>(pair, visibility, tile * kRows, own_key, left,
                          [&]([[maybe_unused]] int band) {
                            if constexpr (kTable) {
                              if (pass.distances) sums.add(band, pair.d_score[band]);
                            }
                          });
    }
    [[maybe_unused]] float sum = 0;
    if constexpr (kTable) {
      if (pass.distances) sum = sums.join(seen.first, seen.second);
    }
    if (own && !kTwoDots) {
      pair.keep_gradients(0, left[0]);
      pair.keep_gradients(1, left[1]);
    }
    const std::int64_t at =
        launch.tile_of(static_cast<int>(blockIdx.y), partial, place >> launch.shift, tile);
    const bool follows = launch.taken && launch.taken[at];
    __syncthreads();
    if (launch.taken && threadIdx.x == 0) launch.taken[at] = 1;
    if constexpr (kTwoDots) {
      if (own) pair.add_kept_values(dv);
      __syncthreads();
      if (own) {
        pair.keep_phases(0, left[0]);
        pair.keep_phases(1, left[1]);
      }
      __syncthreads();
    }
    add_dq<T, D>(launch, pair, at, follows, seen, [&] {
      if (!own) return;
      if constexpr (!kTwoDots) pair.add_kept_values(dv);
      if constexpr (Score::kState) pair.add_kept_state(d_state);
      pair.add_kept_dots(dk);
    });
    if constexpr (kTable) {
      if (pass.distances) {
        sums.add_to(launch.distances_of(unit * launch.group + (place >> launch.shift), partial),
                    kRows * (tile - key / kRows - 2 + launch.key_tiles), sum, seen.first,
                    seen.second, !launch.taken);
      }
    }
  });
  const auto once = [](int) { return 1.0f; };
  const DeviceGradients& to = pass.gradients;
  pair.write_kept(to.dk, batch, kv_head, own_key, pair.channels(), dk,
                  [&](int channel) { return pass.problem.score.factor(channel); });
  pair.write_kept(to.dv, batch, kv_head, own_key, pair.value_channels(), dv, once);
  if constexpr (Score::kState) {
    if (to.d_state.data) {
      pair.write_kept(to.d_state, batch, kv_head, own_key, pair.state_channels(), d_state, once);
    }
  }
}

/// grid.x blocks share the keys of a unit, grid.y units.
template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kOnePassThreads, 1)
    attention_one_pass_kernel(const __grid_constant__ OnePassLaunch<Score> launch) {
  OnePassPair<T, D, Score> pair(launch.pass);
  const int blocks = static_cast<int>(gridDim.x), own = static_cast<int>(blockIdx.x);
  const int count = (pair.keys() + kOnePassKeys - 1) / kOnePassKeys;
  // The longest columns first, then back and forth, so that each block has as many pairs.
  for (int turn = 0; turn * blocks < count; ++turn) {
    const int place = turn * blocks + (turn % 2 == 0 ? own : blocks - 1 - own);
    if (place < count) take_keys<T, D>(launch, pair, place * kOnePassKeys);
    __syncthreads();
  }
}

/// dq of a tile of queries, grid.x of them, grid.y units, grid.z heads of one.
template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kOnePassThreads)
    attention_join_dq_kernel(const __grid_constant__ OnePassLaunch<Score> launch) {
  const Problem<Score>& problem = launch.pass.problem;
  const AttentionShape& shape = problem.shape;
  const std::int64_t unit = launch.first_unit + blockIdx.y;
  const int own_head = static_cast<int>(blockIdx.z), query_tile = static_cast<int>(blockIdx.x);
  DqPart<T, D> dq;
  dq.for_each([](float& x, int) { x = 0; });
  for (int partial = 0; partial < static_cast<int>(launch.plan.partials); ++partial) {
    const std::int64_t tile =
        launch.tile_of(static_cast<int>(blockIdx.y), partial, own_head, query_tile);
    if (launch.taken && !launch.taken[tile]) continue;
    const float* from = launch.sums + tile * (kRows * D);
    dq.for_each([&](float& x, int place) { x += from[place]; });
  }
  const OutputTensor& to = launch.pass.gradients.dq;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t head = unit % shape.kv_heads * (shape.heads / shape.kv_heads) + own_head;
#pragma unroll
  for (int band = 0; band < 2; ++band) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = query_tile * kRows + dq.row(band) + lane / 4 + 8 * half;
      if (row >= shape.queries) continue;
      write_row<T, DqPart<T, D>::kChannels>(
          pointer<T>(to, unit / shape.kv_heads, head) + row * to.row + dq.channel(), dq.sums[band],
          half, [&](int channel) { return problem.score.factor(dq.channel() + channel); },
          static_cast<int>(shape.head_dim) - dq.channel(), lane);
    }
  }
}

/// The pass of a plan, in as many launches as its units need.
template <typename T, int D, DeviceScore Score>
void launch_one_pass(const CudaAttention& a, const OnePass& plan,
                     const BackwardLaunch<Score>& pass) {
  using Layout = OnePassLayout<D, Score>;
  static_assert(Layout::kBytesWithOperands <= one_pass_bytes(D, Score::kState));
  static_assert(KeyTableSums::kBytes <= Layout::kOperandBytes);
  const auto stream = static_cast<cudaStream_t>(a.stream);
  float* sums = pass.delta + delta_size(a.shape) + plan.distances;
  auto* taken = reinterpret_cast<std::uint8_t*>(sums + plan.floats);
  if (pass.distances) {
    PHASESCOPE_CUDA(
        cudaMemsetAsync(pass.distances, 0, static_cast<std::size_t>(plan.distances) * 4, stream));
  }
  const std::int64_t units = a.shape.batch * a.shape.kv_heads;
  const auto heads = static_cast<unsigned>(a.shape.heads / a.shape.kv_heads);
  for (std::int64_t first = 0; first < units; first += plan.units) {
    const auto count = static_cast<unsigned>(std::min<std::int64_t>(plan.units, units - first));
    if (plan.atomic) {
      PHASESCOPE_CUDA(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(plan.floats) * 4, stream));
    } else {
      PHASESCOPE_CUDA(cudaMemsetAsync(taken, 0, plan.flags, stream));
    }
    const OnePassLaunch<Score> launched{
        pass,
        plan,
        sums,
        plan.atomic ? nullptr : taken,
        first,
        static_cast<int>(heads),
        static_cast<int>(tiles_of(a.shape.queries)),
        static_cast<int>(tiles_of(a.shape.keys)),
        static_cast<int>(std::bit_width(tiles_of(a.shape.queries) - 1)),
        block_distances(a.shape)};
    launch("dq, dk and dv", &attention_one_pass_kernel<T, D, Score>, dim3{plan.groups, count, 1},
           kOnePassThreads, Layout::kBytesWithOperands, a.stream, launched);
    launch("join dq", &attention_join_dq_kernel<T, D, Score>,
           dim3{tiles_of(a.shape.queries), count, heads}, kOnePassThreads, 0, a.stream, launched);
  }
}

}  // namespace phasescope::kernels::cuda
