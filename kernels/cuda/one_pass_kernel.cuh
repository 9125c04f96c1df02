#pragma once
// The backward pass in one kernel: a block of 128 keys goes over the tiles of queries of its
// group's heads, and makes dk, dv and its part of dq of each pair of tiles, so that scores and the
// gradients of weights are computed once (five products a pair in place of seven, with TAPE's
// states seven in place of ten). Gradients of scores go through shared memory once, for dk and for
// dq, those of TAPA's phases after them; a table's gradient is summed where they are. What becomes
// of dq, and which blocks there are, says one_pass.cuh.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bands.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/one_pass.cuh"
#include "kernels/cuda/table_sums.cuh"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kOnePassThreads = kOnePassTiles * kThreads;

/// Whether there is that form: with states, whose gradients a thread sums too, of heads of 64.
template <int D, DeviceScore Score>
inline constexpr bool kHasOnePass = kIsOfTiles<Score>&& one_pass_bytes(D, Score::kState) > 0;

template <int D, DeviceScore Score>
using OnePassLayout = PairLayout<D, Score, true, 1, 2, kOnePassTiles>;
template <typename T, int D, DeviceScore Score>
using OnePassPair = TilePair<T, D, true, Score, true, 2, 2, kOnePassTiles>;

/// What a thread has of dq of a tile of queries: of one half of these and a quarter of the
/// channels, in the order in which the block's threads keep it in memory.
template <typename T, int D>
struct DqPart {
  static constexpr int kThreads = kOnePassThreads, kNumbers = kRows * D;
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

  /// Writes them times factor(channel): the 64 rows from `first` on that exist, channels below
  /// `width`.
  template <class Factor>
  __device__ void write(const OutputTensor& to, int batch, std::int64_t head, int first, int rows,
                        int width, const Factor& factor) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int band = 0; band < 2; ++band) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t own = first + row(band) + lane / 4 + 8 * half;
        if (own >= rows) continue;
        write_row<T, kChannels>(
            pointer<T>(to, batch, head) + own * to.row + channel(), sums[band], half,
            [&](int n) { return factor(channel() + n); }, width - channel(), lane);
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
  const Unit unit(launch);
  const int batch = unit.batch, kv_head = unit.kv_head;
  const int partial = launch.taken ? static_cast<int>(blockIdx.x) : 0;
  const int own_key = key + pair.key_tile() * kRows;
  const Visibility visibility(pass.problem, batch);
  const QueryPlaces<Score> places(launch, visibility, key);
  const auto head_of = [&](int place) { return kv_head * launch.group + places.head_of(place); };
  const auto next = [&](int place) { return places.next(visibility, place); };
  const auto fetch = [&](int place) {
    pair.fetch_queries(batch, head_of(place), places.tile_of(place) * kRows);
    pair.fetch_entries(head_of(place), places.tile_of(place) * kRows, key);
  };
  constexpr bool kTwoDots = Score::kDots == 2, kTable = Score::kEntries && !kTwoDots;
  static_assert(!kTwoDots || !Score::kState);  // phases take the place of weights
  float dk[2][D / 16][4] = {}, dv[2][D / 16][4] = {};
  [[maybe_unused]] float d_state[2][D / 16][4] = {};
  pair.fetch_keys(batch, kv_head, key);
  pair.for_each(places.begin(visibility), places.end(), next, fetch, [&](int place) {
    const int tile = places.tile_of(place);
    const SeenTiles seen = places.seen(visibility, place);
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
        launch.tile_of(static_cast<int>(blockIdx.y), partial, places.head_of(place), tile);
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
        sums.add_to(
            launch.distances_of(unit.number * launch.group + places.head_of(place), partial),
            kRows * (tile - key / kRows - 2 + launch.key_tiles), sum, seen.first, seen.second,
            !launch.taken);
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
  for_each_stretch(pair.keys(), [&](int, int key) {
    if (key < pair.keys()) take_keys<T, D>(launch, pair, key);
    __syncthreads();
  });
}

/// The pass of a plan.
template <typename T, int D, DeviceScore Score>
void launch_one_pass(const CudaAttention& a, const OnePass& plan,
                     const BackwardLaunch<Score>& pass) {
  using Layout = OnePassLayout<D, Score>;
  static_assert(Layout::kBytesWithOperands <= one_pass_bytes(D, Score::kState));
  static_assert(KeyTableSums::kBytes <= Layout::kOperandBytes);
  launch_one_pass<DqPart<T, D>>(
      a, plan, pass, [&](const OnePassLaunch<Score>& launched, const dim3& grid) {
        launch("dq, dk and dv", &attention_one_pass_kernel<T, D, Score>, grid, kOnePassThreads,
               Layout::kBytesWithOperands, a.stream, launched);
      });
}

}  // namespace phasescope::kernels::cuda
