#pragma once
// CAPE's scores, for a strip of query rows and keys of one batch entry. A score needs the content
// scores of all heads of its pair, so these go through memory:
//
//   cape_tables_kernel   the biases' part of the network, which depends on the distance alone, or
//                        over FIRE its pieces (once)
//   cape_content_kernel  scale q.k of a head and a pair of tiles, by products of 16-bit values
//   cape_network_kernel  a thread takes all heads of two or four pairs through the network, in
//                        float32, and masks and caps the scores
//
// and then the forward pass over stored scores (StoredScore). Strips follow each other; where those
// of some rows do not have all keys, the pass keeps its rows in memory between them (KeptRows).
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. this one: 16 bytes of memory traffic a score and the network on the float32 pipe, which
//      by count cost several times plain's products; not yet run.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cape_network.cuh"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

struct CapeLaunch {
  Problem<StoredScore> problem;  // its strip gets the scores
  Strip content;                 // may be the same memory
  CapeNetwork network;
  float scale;
};

/// A block for each pair of tiles: grid.x of them, keys first; grid.y heads.
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
  const int query = first_row(problem) + static_cast<int>(blockIdx.x) / key_tiles * kRows;
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

/// A thread keeps kUnits hidden units (the network's and zeros) of so many pairs in registers.
template <int kUnits>
struct CapeBlock {
  static constexpr int kPairs = 128 / kUnits;           // neighbouring keys
  static constexpr int kThreadsOfRow = kRows / kPairs;  // of a row of a tile
  static constexpr int kQueries = kThreads / kThreadsOfRow;
  /// Shared memory: weights of the content scores, then of the second layer, (heads, kUnits) each.
  static constexpr int bytes(std::int64_t heads) { return static_cast<int>(heads) * kUnits * 8; }
};

__device__ __forceinline__ float leaky(float x) { return fmaxf(x, 0.01f * x); }

/// The weights of both layers by heads, in shared memory; zeros for units that the network lacks.
template <int kUnits>
__device__ __forceinline__ void store_weights(const CapeNetwork& net) {
  const CapeVariant& cape = net.cape;
  const int count = static_cast<int>(net.heads) * kUnits;
  for (int n = static_cast<int>(threadIdx.x); n < count; n += kThreads) {
    const std::int64_t head = n / kUnits, unit = n % kUnits;
    const bool exists = unit < cape.hidden;
    const std::uint32_t at = shared_memory() + static_cast<std::uint32_t>(n) * 4;
    store_shared(at, exists ? cape.w1[unit * net.layout.width + head] : 0.0f);
    store_shared(at + static_cast<std::uint32_t>(count) * 4,
                 exists ? cape.w2[head * cape.hidden + unit] : 0.0f);
  }
}

/// units[m] += w1_A a.
template <int kUnits, int kPairs>
__device__ __forceinline__ void add_content(std::uint32_t weights, const Numbers<kPairs>& a,
                                            float (&units)[kUnits][kPairs]) {
#pragma unroll
  for (int m = 0; m < kUnits; m += 4) {
    const auto w = load_shared<Numbers<4>>(weights + static_cast<std::uint32_t>(m) * 4);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < kPairs; ++e) units[m + n][e] = fmaf(w.x[n], a.x[e], units[m + n][e]);
    }
  }
}

/// sums += w2 units.
template <int kUnits, int kPairs>
__device__ __forceinline__ void add_units(std::uint32_t weights,
                                          const float (&units)[kUnits][kPairs],
                                          Numbers<kPairs>& sums) {
#pragma unroll
  for (int m = 0; m < kUnits; m += 4) {
    const auto w = load_shared<Numbers<4>>(weights + static_cast<std::uint32_t>(m) * 4);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < kPairs; ++e) sums.x[e] = fmaf(w.x[n], units[m + n][e], sums.x[e]);
    }
  }
}

/// A block for each kQueries rows of a tile of keys: grid.x of them, keys first.
template <int kUnits, bool kFire>
__global__ void __launch_bounds__(kThreads)
    cape_network_kernel(const __grid_constant__ CapeLaunch launch) {
  using Block = CapeBlock<kUnits>;
  constexpr int kPairs = Block::kPairs;
  const Problem<StoredScore>& problem = launch.problem;
  const CapeNetwork& net = launch.network;
  const int thread = static_cast<int>(threadIdx.x), heads = static_cast<int>(net.heads);
  const Strip& strip = problem.score.strip;
  const int key_tiles = static_cast<int>(tiles_of(strip.last_key - strip.first_key));
  const int tile =
      static_cast<int>(strip.first_key) + static_cast<int>(blockIdx.x) % key_tiles * kRows;
  const int key = tile + thread % Block::kThreadsOfRow * kPairs;
  const int query = first_row(problem) +
                    static_cast<int>(blockIdx.x) / key_tiles * Block::kQueries +
                    thread / Block::kThreadsOfRow;
  const Visibility visibility(problem, batch_of(problem));
  if (!visibility.sees(query / kRows * kRows, tile)) return;
  store_weights<kUnits>(net);
  __syncthreads();

  const int position = query + static_cast<int>(problem.shape.query_offset);
  CapePlace<kFire> place[kPairs];
#pragma unroll
  for (int e = 0; e < kPairs; ++e) {
    place[e] = net.template place<kFire>(query, position - key - e);
  }
  float units[kUnits][kPairs];
#pragma unroll
  for (int m = 0; m < kUnits; ++m) {
#pragma unroll
    for (int e = 0; e < kPairs; ++e) {
      units[m][e] = m < net.cape.hidden ? net.at(m, place[e]) : 0.0f;
    }
  }
  const auto content_of = [&](int head) {
    return *reinterpret_cast<const Numbers<kPairs>*>(launch.content.at(head, query, key));
  };
  constexpr std::uint32_t kRow = kUnits * 4;
  std::uint32_t weights = shared_memory();
  for (int h = 0; h < heads; ++h, weights += kRow) add_content(weights, content_of(h), units);
#pragma unroll
  for (int m = 0; m < kUnits; ++m) {
#pragma unroll
    for (int e = 0; e < kPairs; ++e) units[m][e] = leaky(units[m][e]);
  }
  for (int h = 0; h < heads; ++h, weights += kRow) {
    Numbers<kPairs> score{};
    add_units(weights, units, score);
    const Numbers<kPairs> content = content_of(h);
#pragma unroll
    for (int e = 0; e < kPairs; ++e) {
      float t = (content.x[e] + net.at(net.cape.hidden + h, place[e]) + score.x[e]) * kLog2e;
      if (problem.soft_cap > 0) t = capped(t, problem.soft_cap, 1 / problem.soft_cap);
      score.x[e] = visibility.visible(position, key + e) ? t : -INFINITY;
    }
    *reinterpret_cast<Numbers<kPairs>*>(strip.at(h, query, key)) = score;
  }
}

}  // namespace phasescope::kernels::cuda
