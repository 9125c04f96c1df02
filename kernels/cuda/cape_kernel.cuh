#pragma once
// CAPE's scores, for a strip of query rows and keys of one batch entry, or of several entries whose
// strips are whole. A score needs the content scores of all heads of its pair, so these go through
// memory:
//
//   cape_tables_kernel   the biases' part of the network, which depends on the distance alone, or
//                        over FIRE its pieces (once)
//   cape_split_kernel    the weights as operands (once)
//   cape_content_kernel  scale q.k of a head and a pair of tiles, by products of 16-bit values
//   cape_network_kernel  a warp takes all heads of 32 pairs through the network by products of tf32
//                        numbers, and masks and caps the scores
//
// A number goes there as two of tf32's, its nearest and the rest: with three products in place of
// one, what a layer loses is 2^-21 of the sizes that it sums, near float32's own error.
//
// and then the forward pass over stored scores (StoredScore). Strips follow each other; where those
// of some rows do not have all keys, the pass keeps its rows in memory between them (KeptRows).
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. a thread for two or four pairs, the network on the float32 pipe: 2 heads x units additions
//      of products a pair.
//   2. this one: the network on tensor cores, and 16 bytes of memory traffic a score, which it
//      waits for now, by count.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cape_mma.cuh"
#include "kernels/cuda/cape_network.cuh"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

/// grid.z texts, whose strips lie one after the other.
struct CapeLaunch {
  Problem<StoredScore> problem;  // its strip gets the scores
  Strip content;                 // may be the same memory
  CapeNetwork network;
  float scale;
};

/// A block for each pair of tiles: grid.x of them, keys first; grid.y heads; grid.z texts.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads)
    cape_content_kernel(const __grid_constant__ CapeLaunch launch) {
  const Problem<StoredScore>& problem = launch.problem;
  const AttentionShape& shape = problem.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Strip& strip = launch.content;
  const int key_tiles = static_cast<int>(tiles_of(strip.last_key - strip.first_key));
  const int key =
      static_cast<int>(strip.first_key) + static_cast<int>(blockIdx.x) % key_tiles * kRows;
  const int query =
      static_cast<int>(strip.first) + static_cast<int>(blockIdx.x) / key_tiles * kRows;
  const int batch = batch_of(problem), head = static_cast<int>(blockIdx.y);
  const int kv_head = head / static_cast<int>(shape.heads / shape.kv_heads);
  if (!Visibility(problem, batch).sees(query, key)) return;
  const std::uint32_t rows = shared_memory(), columns = rows + kTileBytes<D>;
  const int channels = static_cast<int>(shape.head_dim);
  copy_tile<T, D>(rows, pointer<T>(problem.q, batch, head), problem.q.row, query,
                  static_cast<int>(shape.queries), channels);
  copy_tile<T, D>(columns, pointer<T>(problem.k, batch, kv_head), problem.k.row, key,
                  static_cast<int>(shape.keys), channels);
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  const auto operand = [&](int d, std::uint32_t(&a)[4]) {
    load_operand<D>(rows, warp * 16, d, lane, a);
  };
  constexpr int kWidth = 32;
  for (int first = 0; first < kRows; first += kWidth) {
    float dots[kWidth / 8][4] = {};
    add_products<T, D, kWidth>(operand, columns, first, lane, dots);
    const Chunk<false> chunk(0, 0, first, warp, lane);
    for_each_stored<kWidth>(strip, head, query, key, chunk, [&](int n, int e, float& content) {
      content = launch.scale * dots[n][e];
    });
  }
}

/// Numbers of neighbouring keys, or of neighbouring units, read at once.
template <int kCount>
struct alignas(4 * kCount) Numbers {
  float x[kCount];
};

__device__ __forceinline__ float leaky(float x) { return fmaxf(x, 0.01f * x); }

/// What a warp takes through the network at once: 32 neighbouring keys of a query. As rows of two
/// products, key 4g + e is row g + 8 (e % 2) of product e / 2, so that the lanes of group g read
/// four keys of a head at once. Heads and units are columns: of eight, the lane at place t of its
/// group has 2t and 2t + 1, as sums of a product and as operands of the next alike (there as
/// columns t and t + 4; CapeWeights has its rows in the same order).
struct CapeColumns {
  float sums[2][4] = {};

  /// Of key 4g + e and column 2t + c.
  __device__ float& at(int e, int c) { return sums[e / 2][e % 2 * 2 + c]; }
};

/// The first operand of a product, 16 x 8, in two parts. A number that is not finite is its lower
/// part alone, which only the nearest weights multiply: inf - inf is no rest, and the weights'
/// rests may be 0 or of the other sign, which would make it NaN.
struct CapeOperand {
  std::uint32_t high[4], low[4];

  __device__ __forceinline__ void set(int r, float x) {
    const Tf32Parts parts(x);
    constexpr std::uint32_t kExponent = 0x7f800000u;
    const bool finite = (parts.high & kExponent) != kExponent;
    high[r] = finite ? parts.high : 0;
    low[r] = finite ? parts.low : parts.high;
  }
  /// sums += this times the weights, but for the product of both lower parts.
  __device__ __forceinline__ void multiply(const CapeWeights& weights, float (&sums)[4]) const {
    multiply_tf32(sums, low, weights.high);
    multiply_tf32(sums, high, weights.low);
    multiply_tf32(sums, high, weights.high);
  }
};

/// The same columns as operands.
struct CapeOperands {
  CapeOperand rows[2];

  __device__ __forceinline__ void set(const CapeColumns& columns) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int r = 0; r < 4; ++r) rows[n].set(r, columns.sums[n][r % 2 * 2 + r / 2]);
    }
  }
  __device__ __forceinline__ void multiply(const CapeWeights& weights, CapeColumns& to) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) rows[n].multiply(weights, to.sums[n]);
  }
};

/// Rows of a tile that a block takes; a warp takes every other one of them, for half of the keys.
inline constexpr int kCapeQueries = 8;

/// A warp's network, with so many hidden units in registers (those that there are and zeros).
template <int kUnits, bool kFire>
class CapeWarp {
 public:
  __device__ explicit CapeWarp(const CapeLaunch& launch)
      : problem_(launch.problem),
        net_(launch.network),
        content_(launch.content),
        scores_(launch.problem.score.strip),
        lane_(static_cast<int>(threadIdx.x) % 32),
        column_(lane_ % 4 * 2) {}

  /// 32 keys from `key` on.
  __device__ __forceinline__ void take(const Visibility& visibility, int query, int key) {
    query_ = query;
    key_ = key + lane_ / 4 * 4;
    const int position = query + static_cast<int>(problem_.shape.query_offset);
#pragma unroll
    for (int e = 0; e < 4; ++e) place_[e] = net_.template place<kFire>(query, position - key_ - e);
    enter_units();
    const int head_tiles = net_.head_tiles();
    for (int tile = 0; tile < head_tiles; ++tile) leave_heads(visibility, position, tile);
  }

 private:
  static constexpr int kTiles = kUnits / 8;

  /// The first layer.
  __device__ __forceinline__ void enter_units() {
    CapeColumns units[kTiles];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int unit = m * 8 + column_ + c;
        if (unit >= net_.cape.hidden) continue;
#pragma unroll
        for (int e = 0; e < 4; ++e) units[m].at(e, c) = net_.at(unit, place_[e]);
      }
    }
    const int head_tiles = net_.head_tiles();
    for (int tile = 0; tile < head_tiles; ++tile) {
      CapeColumns contents;
      read_contents(tile, contents);
      CapeOperands heads;
      heads.set(contents);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        if (m < net_.unit_tiles()) {
          heads.multiply(net_.weights(kHeadsToUnits, tile, m, lane_), units[m]);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          // Those that do not exist: an infinite content score times no weight left NaN there.
          const bool exists = m * 8 + column_ + r % 2 < net_.cape.hidden;
          units[m].sums[n][r] = exists ? leaky(units[m].sums[n][r]) : 0;
        }
      }
      units_[m].set(units[m]);
    }
  }

  /// The second layer, to eight heads' scores.
  __device__ __forceinline__ void leave_heads(const Visibility& visibility, int position,
                                              int tile) {
    CapeColumns scores;
    read_contents(tile, scores);
    for_each_head(tile, [&](int c, int head) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores.at(e, c) += net_.at(net_.cape.hidden + head, place_[e]);
    });
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      if (m < net_.unit_tiles()) {
        units_[m].multiply(net_.weights(kUnitsToHeads, tile, m, lane_), scores);
      }
    }
    for_each_head(tile, [&](int c, int head) {
      Numbers<4> score;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float t = scores.at(e, c) * kLog2e;
        if (problem_.soft_cap > 0) t = capped(t, problem_.soft_cap, 1 / problem_.soft_cap);
        score.x[e] = visibility.visible(position, key_ + e) ? t : -INFINITY;
      }
      *reinterpret_cast<Numbers<4>*>(scores_.at(head, query_, key_)) = score;
    });
  }

  __device__ __forceinline__ void read_contents(int tile, CapeColumns& contents) const {
    for_each_head(tile, [&](int c, int head) {
      const auto content = *reinterpret_cast<const Numbers<4>*>(content_.at(head, query_, key_));
#pragma unroll
      for (int e = 0; e < 4; ++e) contents.at(e, c) = content.x[e];
    });
  }

  /// The lane's two of eight heads, where they exist.
  template <class Call>
  __device__ __forceinline__ void for_each_head(int tile, const Call& call) const {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int head = tile * 8 + column_ + c;
      if (head < net_.heads) call(c, head);
    }
  }

  const Problem<StoredScore>& problem_;
  const CapeNetwork& net_;
  const Strip &content_, &scores_;
  int lane_, column_;
  int query_ = 0, key_ = 0;
  CapePlace<kFire> place_[4];
  CapeOperands units_[kTiles];
};

/// A block for each kCapeQueries rows of a tile of keys: grid.x of them, keys first; grid.z texts.
template <int kUnits, bool kFire>
__global__ void __launch_bounds__(kThreads)
    cape_network_kernel(const __grid_constant__ CapeLaunch launch) {
  const Strip& scores = launch.problem.score.strip;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int key_tiles = static_cast<int>(tiles_of(scores.last_key - scores.first_key));
  const int tile =
      static_cast<int>(scores.first_key) + static_cast<int>(blockIdx.x) % key_tiles * kRows;
  const int query =
      static_cast<int>(scores.first) + static_cast<int>(blockIdx.x) / key_tiles * kCapeQueries;
  const Visibility visibility(launch.problem, batch_of(launch.problem));
  if (!visibility.sees(query / kRows * kRows, tile)) return;
  CapeWarp<kUnits, kFire> network(launch);
  for (int row = warp / 2; row < kCapeQueries; row += 2) {
    network.take(visibility, query + row, tile + warp % 2 * 32);
  }
}

}  // namespace phasescope::kernels::cuda
