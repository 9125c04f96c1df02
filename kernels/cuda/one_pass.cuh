#pragma once
// What the backward pass in one kernel is in each of its forms (one_pass_kernel.cuh,
// backward_hopper.cuh): the work that a block is given, the tiles of queries that it goes over, the
// sums of dq that it leaves in the workspace, and the kernel that joins these.
//
// Parts of dq are float32 sums in the workspace: of each group of blocks' keys its own, joined in
// the order of groups (the same bits every time), or one that all blocks add to atomically. What
// takes this form, and how much memory, says one_pass() of launchers.h.

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda/backward_launch.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/problem.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kOnePassTiles = kOnePassKeys / kRows;

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

/// The head of keys of a text that a block works for.
struct Unit {
  std::int64_t number;
  int batch, kv_head;

  template <DeviceScore Score>
  __device__ explicit Unit(const OnePassLaunch<Score>& launch)
      : number(launch.first_unit + blockIdx.y),
        batch(static_cast<int>(number / launch.pass.problem.shape.kv_heads)),
        kv_head(static_cast<int>(number % launch.pass.problem.shape.kv_heads)) {}
};

/// What a block of keys goes over: places are tiles of queries, head by head of its unit. It keeps
/// nothing that the launch has, so that threads need no registers for that.
template <DeviceScore Score>
class QueryPlaces {
 public:
  __device__ QueryPlaces(const OnePassLaunch<Score>& launch, const Visibility& visibility, int key)
      : launch_(launch),
        tiles_(visibility, key, static_cast<int>(launch.pass.problem.shape.keys)) {}

  /// Of the first head.
  __device__ int begin(const Visibility& visibility) const {
    return next(visibility, tiles_.first());
  }
  __device__ int end() const { return launch_.group << launch_.shift; }
  /// The first place from one on that sees any key. All lanes of a warp call it.
  __device__ int next(const Visibility& visibility, int place) const {
    for (; place < end(); ++place) {
      const int tile = tile_of(place);
      if (tile >= tiles_.last()) place |= (1 << launch_.shift) - 1;
      if (tile < tiles_.last() && tiles_.seen(visibility, tile * kRows).any()) break;
    }
    return place;
  }
  __device__ int tile_of(int place) const { return place & ((1 << launch_.shift) - 1); }
  /// Among the heads of the unit.
  __device__ int head_of(int place) const { return place >> launch_.shift; }
  __device__ SeenTiles seen(const Visibility& visibility, int place) const {
    return tiles_.seen(visibility, tile_of(place) * kRows);
  }

 private:
  const OnePassLaunch<Score>& launch_;
  KeyTiles tiles_;
};

/// Calls call(turn, key) for each stretch of keys from `key` on that the block takes: the longest
/// columns first, then back and forth, so that each block has as many pairs.
template <class Call>
__device__ __forceinline__ void for_each_stretch(int keys, const Call& call) {
  const int blocks = static_cast<int>(gridDim.x), own = static_cast<int>(blockIdx.x);
  const int count = (keys + kOnePassKeys - 1) / kOnePassKeys;
  for (int turn = 0; turn * blocks < count; ++turn) {
    const int place = turn * blocks + (turn % 2 == 0 ? own : blocks - 1 - own);
    call(turn, place < count ? place * kOnePassKeys : keys);
  }
}

/// dq of a tile of queries by threads that have it as Dq has, grid.x tiles, grid.y units, grid.z
/// heads of one.
template <class Dq, DeviceScore Score>
__global__ void __launch_bounds__(Dq::kThreads)
    attention_join_dq_kernel(const __grid_constant__ OnePassLaunch<Score> launch) {
  const Problem<Score>& problem = launch.pass.problem;
  const AttentionShape& shape = problem.shape;
  const Unit unit(launch);
  const int own_head = static_cast<int>(blockIdx.z), query_tile = static_cast<int>(blockIdx.x);
  Dq dq;
  dq.for_each([](float& x, int) { x = 0; });
  for (int partial = 0; partial < static_cast<int>(launch.plan.partials); ++partial) {
    const std::int64_t tile =
        launch.tile_of(static_cast<int>(blockIdx.y), partial, own_head, query_tile);
    if (launch.taken && !launch.taken[tile]) continue;
    const float* from = launch.sums + tile * Dq::kNumbers;
    dq.for_each([&](float& x, int place) { x += from[place]; });
  }
  const std::int64_t head = unit.kv_head * (shape.heads / shape.kv_heads) + own_head;
  dq.write(launch.pass.gradients.dq, unit.batch, head, query_tile * kRows,
           static_cast<int>(shape.queries), static_cast<int>(shape.head_dim),
           [&](int channel) { return problem.score.factor(channel); });
}

/// The pass of a plan, in as many launches as its units need: start(launched, grid) is one of the
/// kernel that leaves sums as Dq has them.
template <class Dq, DeviceScore Score, class Start>
void launch_one_pass(const CudaAttention& a, const OnePass& plan, const BackwardLaunch<Score>& pass,
                     const Start& start) {
  const auto stream = static_cast<cudaStream_t>(a.stream);
  float* sums = pass.delta + sums_place(a.shape, plan);
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
    start(launched, dim3{plan.groups, count, 1});
    launch("join dq", &attention_join_dq_kernel<Dq, Score>,
           dim3{tiles_of(a.shape.queries), count, heads}, Dq::kThreads, 0, a.stream, launched);
  }
}

}  // namespace phasescope::kernels::cuda
