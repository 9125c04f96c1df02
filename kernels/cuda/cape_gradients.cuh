#pragma once
// CAPE's backward pass, a strip of query rows of a batch entry at a time, after cape_kernel.cuh has
// left the strip's content scores and scores. No atomics: what strips add to is added in their
// order.
//
//   cape_dv_kernel         a block of 64 keys: weights, dv, and d score in the place of the scores
//   cape_gradients_kernel  a block goes over the tile pairs of one distance: d score of all heads
//                          through the network, d content in its place; sums for the weights and by
//                          distance
//   cape_dq_kernel         a block of 64 queries: d content . k
//   cape_dk_kernel         a block of 64 keys: d content . q, transposed
//
// and after all strips
//
//   cape_join_kernel       sums by distance from those of tile distances
//   cape_values_kernel     the table's gradient
//   cape_weights_kernel    those of both layers

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cape_kernel.cuh"
#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/tile_pair.cuh"

namespace phasescope::kernels::cuda {

struct CapeGradientLaunch {
  BackwardLaunch<StoredScore> pairs;  // its strip: scores, d score, d content in turn
  Strip content;
  CapeNetwork network;
  CapeMemory memory;
  float scale;
  bool begins;  // the first strip of all: what is summed over strips begins
  bool ends;    // the last one of its batch entry: dk and dv are written
};

/// Sums of 64 keys of a kv head that strips add to: after a batch entry's last one to `to`.
template <typename T, int D>
__device__ __forceinline__ void add_keys(const CapeGradientLaunch& launch, const CudaTensor& to,
                                         float* between, int kv_head, int key, float factor,
                                         float (&sums)[D / 8][4]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Strip& strip = launch.content;
  const AttentionShape& shape = launch.pairs.problem.shape;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = key + warp * 16 + lane / 4 + 8 * half;
    float* kept = between + (kv_head * strip.keys + row) * D + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& sum = sums[d][2 * half + e];
        if (strip.first > 0) sum += kept[d * 8 + e];
        if (!launch.ends) kept[d * 8 + e] = sum;
      }
    }
    if (!launch.ends || row >= shape.keys) continue;
    write_row<T, D>(
        pointer<T>(to, strip.batch, kv_head) + row * to.row, sums, half,
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

/// grid.x tiles of keys, grid.y kv heads.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads)
    cape_dv_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  TilePair<T, D, true, StoredScore> pair(launch.pairs);
  const Problem<StoredScore>& problem = launch.pairs.problem;
  const int batch = batch_of(problem), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(blockIdx.x) * kRows;
  const Visibility visibility(problem, batch);
  float dv[D / 8][4] = {};
  pair.fetch_keys(batch, kv_head, key);
  for_each_query_tile(launch, kv_head, key, [&](int head, int query) {
    pair.fetch_queries(batch, head, query);
    pair.begin(head, query, key);
    for (int first = 0; first < kRows; first += kColumns) {
      pair.compute(visibility, query, key, first);
      pair.add_values(first, dv);
      const Chunk<true> chunk(0, 0, first, pair.warp(), pair.lane());
      for_each_stored<kColumns>(
          problem.score.strip, head, query, key, chunk,
          [&](int n, int e, float& d_score) { d_score = pair.d_score[n][e]; });
    }
    __syncthreads();
  });
  commit_copies();
  wait_copies<0>();
  add_keys<T, D>(launch, launch.pairs.gradients.dv, launch.memory.dv, kv_head, key, 1, dv);
}

/// grid.x tiles of the strip's queries, grid.y heads.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads)
    cape_dq_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  const Problem<StoredScore>& problem = launch.pairs.problem;
  const AttentionShape& shape = problem.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int batch = batch_of(problem), head = static_cast<int>(blockIdx.y);
  const int kv_head = head / static_cast<int>(shape.heads / shape.kv_heads);
  const int query = static_cast<int>(launch.content.first) + static_cast<int>(blockIdx.x) * kRows;
  const Visibility visibility(problem, batch);
  const std::uint32_t tile = shared_memory();
  float dq[D / 8][4] = {};
  for (int key = 0; key < shape.keys; key += kRows) {
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
  const CudaTensor& to = launch.pairs.gradients.dq;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + warp * 16 + lane / 4 + 8 * half;
    if (row >= shape.queries) continue;
    write_row<T, D>(
        pointer<T>(to, batch, head) + row * to.row, dq, half, [&](int) { return launch.scale; },
        static_cast<int>(shape.head_dim), lane);
  }
}

/// grid.x tiles of keys, grid.y kv heads.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads)
    cape_dk_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  const Problem<StoredScore>& problem = launch.pairs.problem;
  const AttentionShape& shape = problem.shape;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int batch = batch_of(problem), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(blockIdx.x) * kRows;
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

static_assert(cuda_cape_bytes(4, 4) == 4 * (4 * kPairRow * 4 + 2 * kThreads * 4 + 2 * 4 * 4),
              "what CapeGradientBlock places");

/// The network's backward pass over the pairs of tiles of one distance, 32 pairs of a query row at
/// a time: a lane has a pair, a warp every fourth head or four hidden units.
class CapeGradientBlock {
 public:
  __device__ explicit CapeGradientBlock(const CapeGradientLaunch& launch)
      : launch_(launch),
        net_(launch.network),
        strip_(launch.pairs.problem.score.strip),
        tiles_(launch.pairs.problem.shape, blockIdx.x),
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
        diagonals_(weights_ + size(2 * heads_ * units_)) {}

  __device__ void run() {
    const AttentionShape& shape = launch_.pairs.problem.shape;
    const Visibility visibility(launch_.pairs.problem, static_cast<int>(strip_.batch));
    const int begin = max(tiles_.first(), static_cast<int>(strip_.first / kRows));
    const int end = min(tiles_.last(), static_cast<int>(tiles_of(strip_.last)));
    if (begin >= end && !launch_.begins) return;
    for (int n = thread_; n < 2 * heads_ * units_ + rows() * kThreads; n += kThreads) {
      put(weights_, n, 0);
    }
    for (int tile = begin; tile < end; ++tile) {
      const int query = tile * kRows, key = (tile - tiles_.ahead) * kRows;
      if (!visibility.sees(query, key)) continue;
      const int last = min(kRows, static_cast<int>(shape.queries) - query);
      for (int row = 0; row < last; ++row) {
        for (int column = 0; column < kRows; column += 32) take(query, key, row, column + lane_);
      }
    }
    __syncthreads();
    write();
  }

 private:
  __device__ static std::uint32_t size(int floats) {
    return static_cast<std::uint32_t>(floats) * 4;
  }
  __device__ int rows() const { return hidden_ + heads_; }
  __device__ static float get(std::uint32_t array, int n) {
    return load_shared<float>(array + size(n));
  }
  __device__ static void put(std::uint32_t array, int n, float x) {
    store_shared(array + size(n), x);
  }
  __device__ static void add(std::uint32_t array, int n, float x) {
    put(array, n, get(array, n) + x);
  }
  __device__ static Numbers<4> get_four(std::uint32_t array, int n) {
    return load_shared<Numbers<4>>(array + size(n));
  }

  /// The pair of a row and a column of the tiles that begin at `query` and `key`.
  __device__ void take(int query, int key, int row, int column) {
    __syncthreads();
    for (int h = warp_; h < heads_; h += 4) {
      put(content_, h * kPairRow + lane_, launch_.content.row(h, query + row)[key + column]);
      put(d_score_, h * kPairRow + lane_, strip_.row(h, query + row)[key + column]);
    }
    __syncthreads();
    const int diagonal = row - column + kRows - 1;
    const int position = query + row + static_cast<int>(launch_.pairs.problem.shape.query_offset);
    const std::int64_t entry = net_.entry(position - (key + column));
    for (int unit = warp_ * 4; unit < units_; unit += 16) through_units(unit, entry, diagonal);
    __syncthreads();
    for (int h = warp_; h < heads_; h += 4) {
      strip_.row(h, query + row)[key + column] = d_content(h);
      add(diagonals_, (hidden_ + h) * kThreads + diagonal, get(d_score_, h * kPairRow + lane_));
    }
    for (int n = thread_; n < heads_ * units_ / 4; n += kThreads) {
      add_weights(n / (units_ / 4), n % (units_ / 4) * 4);
    }
  }

  /// Four hidden units after the rectifier, and the gradients before it.
  __device__ void through_units(int unit, std::int64_t entry, int diagonal) {
    const CapeVariant& cape = net_.cape;
    const int count = min(4, hidden_ - unit);
    float before[4], d[4] = {};
    for (int n = 0; n < 4; ++n) before[n] = n < count ? net_.hidden(unit + n)[entry] : 0;
    for (int h = 0; h < heads_; ++h) {
      const float content = get(content_, h * kPairRow + lane_);
      const float d_score = get(d_score_, h * kPairRow + lane_);
      for (int n = 0; n < count; ++n) {
        before[n] = fmaf(cape.w1[(unit + n) * net_.layout.width + h], content, before[n]);
        d[n] = fmaf(cape.w2[h * cape.hidden + unit + n], d_score, d[n]);
      }
    }
    for (int n = 0; n < 4; ++n) {
      const float d_hidden = before[n] > 0 ? d[n] : 0.01f * d[n];
      put(active_, (unit + n) * kPairRow + lane_, leaky(before[n]));
      put(d_hidden_, (unit + n) * kPairRow + lane_, d_hidden);
      if (n < count) add(diagonals_, (unit + n) * kThreads + diagonal, d_hidden);
    }
  }

  __device__ float d_content(int head) const {
    float sum = get(d_score_, head * kPairRow + lane_);
    for (int m = 0; m < hidden_; ++m) {
      sum = fmaf(net_.cape.w1[m * net_.layout.width + head], get(d_hidden_, m * kPairRow + lane_),
                 sum);
    }
    return sum;
  }

  /// Of a head and four hidden units: d w1_A and d w2.
  __device__ void add_weights(int head, int unit) {
    float first[4] = {}, second[4] = {};
    for (int pair = 0; pair < 32; pair += 4) {
      const Numbers<4> content = get_four(content_, head * kPairRow + pair);
      const Numbers<4> d_score = get_four(d_score_, head * kPairRow + pair);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const Numbers<4> active = get_four(active_, (unit + n) * kPairRow + pair);
        const Numbers<4> d_hidden = get_four(d_hidden_, (unit + n) * kPairRow + pair);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          first[n] = fmaf(content.x[e], d_hidden.x[e], first[n]);
          second[n] = fmaf(d_score.x[e], active.x[e], second[n]);
        }
      }
    }
    for (int n = 0; n < 4; ++n) {
      add(weights_, head * units_ + unit + n, first[n]);
      add(weights_, (heads_ + head) * units_ + unit + n, second[n]);
    }
  }

  __device__ void write() const {
    const CapeMemory& to = launch_.memory;
    const auto add_to = [&](float* kept, std::uint32_t from, int count) {
      kept += static_cast<std::int64_t>(blockIdx.x) * count;
      for (int n = thread_; n < count; n += kThreads) {
        kept[n] = get(from, n) + (launch_.begins ? 0 : kept[n]);
      }
    };
    add_to(to.weights, weights_, 2 * heads_ * units_);
    add_to(to.by_distance, diagonals_, rows() * kThreads);
  }

  const CapeGradientLaunch& launch_;
  const CapeNetwork& net_;
  const Strip& strip_;
  TileDistance tiles_;
  int heads_, hidden_, units_, thread_, lane_, warp_;
  std::uint32_t content_, d_score_;  // (heads, kPairRow)
  std::uint32_t active_, d_hidden_;  // (units, kPairRow)
  std::uint32_t weights_;            // (2, heads, units)
  std::uint32_t diagonals_;          // (hidden + heads, kThreads)
};

/// grid.x tile distances.
__global__ void __launch_bounds__(kThreads)
    cape_gradients_kernel(const __grid_constant__ CapeGradientLaunch launch) {
  CapeGradientBlock(launch).run();
}

struct CapeJoinLaunch {
  AttentionShape shape;
  CapeNetwork network;
  CapeMemory memory;
  CapeGradients to;
};

__device__ inline double distance_sum(const CapeJoinLaunch& launch, std::int64_t row,
                                      std::int64_t distance) {
  const std::int64_t rows = launch.network.cape.hidden + launch.network.heads;
  double sum = 0;
  for_each_part(launch.shape, distance, [&](std::int64_t tile, int n) {
    sum += static_cast<double>(launch.memory.by_distance[(tile * rows + row) * kThreads + n]);
  });
  return sum;
}

/// One thread a lambda = max(distance, 0); grid.y: d hidden of the units, then d score of the
/// heads.
__global__ void __launch_bounds__(kThreads)
    cape_join_kernel(const __grid_constant__ CapeJoinLaunch launch) {
  const std::int64_t lambda = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (lambda >= launch.memory.distances) return;
  double sum = distance_sum(launch, blockIdx.y, lambda);
  if (lambda == 0 && !launch.shape.causal) {
    for (std::int64_t d = launch.shape.query_offset - launch.shape.keys + 1; d < 0; ++d) {
      sum += distance_sum(launch, blockIdx.y, d);
    }
  }
  launch.memory.joined[blockIdx.y * launch.memory.distances + lambda] = static_cast<float>(sum);
}

/// One thread an entry of the table; grid.y heads.
__global__ void __launch_bounds__(kThreads)
    cape_values_kernel(const __grid_constant__ CapeJoinLaunch launch) {
  const std::int64_t lambda = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const CapeNetwork& net = launch.network;
  if (lambda >= net.cape.length) return;
  const std::int64_t head = blockIdx.y, distances = launch.memory.distances;
  double sum = 0;
  if (lambda < distances) {
    const float* joined = launch.memory.joined + lambda;
    if (net.layout.adds_bias) {
      sum = static_cast<double>(joined[(net.cape.hidden + head) * distances]);
    }
    for (std::int64_t m = 0; m < net.cape.hidden && net.layout.reads_bias; ++m) {
      sum +=
          static_cast<double>(net.cape.w1[m * net.layout.width + net.layout.bias_column + head]) *
          static_cast<double>(joined[m * distances]);
    }
  }
  launch.to.values[head * launch.to.head_stride + lambda] = static_cast<float>(sum);
}

/// The thread's part of a weight's gradient. Rows of `joined` are summed over distances, sums of
/// tile distances over these.
class CapeWeightSums {
 public:
  __device__ explicit CapeWeightSums(const CapeJoinLaunch& launch)
      : launch_(launch), net_(launch.network) {}

  __device__ double w1(std::int64_t unit, std::int64_t column) const {
    double sum = column < net_.heads ? of_tiles(column, unit) : 0;
    const std::int64_t head = column - net_.layout.bias_column;
    if (!net_.layout.reads_bias || head < 0) return sum;
    for (std::int64_t n = threadIdx.x; n < launch_.memory.distances; n += kThreads) {
      sum += joined(unit, n) * static_cast<double>(net_.bias(head, n));
    }
    return sum;
  }
  __device__ double w2(std::int64_t head, std::int64_t unit) const {
    return of_tiles(net_.heads + head, unit);
  }
  __device__ double bias(std::int64_t row) const {
    double sum = 0;
    for (std::int64_t n = threadIdx.x; n < launch_.memory.distances; n += kThreads) {
      sum += joined(row, n);
    }
    return sum;
  }

 private:
  __device__ double joined(std::int64_t row, std::int64_t lambda) const {
    return static_cast<double>(launch_.memory.joined[row * launch_.memory.distances + lambda]);
  }
  __device__ double of_tiles(std::int64_t row, std::int64_t unit) const {
    const std::int64_t units = launch_.memory.units, tiles = tile_distances(launch_.shape);
    double sum = 0;
    for (std::int64_t tile = threadIdx.x; tile < tiles; tile += kThreads) {
      sum +=
          static_cast<double>(launch_.memory.weights[(tile * 2 * net_.heads + row) * units + unit]);
    }
    return sum;
  }

  const CapeJoinLaunch& launch_;
  const CapeNetwork& net_;
};

/// A block for each number: grid.y w1, b1, w2, b2, grid.x the numbers of the longest of them.
__global__ void __launch_bounds__(kThreads)
    cape_weights_kernel(const __grid_constant__ CapeJoinLaunch launch) {
  const CapeNetwork& net = launch.network;
  const std::int64_t hidden = net.cape.hidden, width = net.layout.width, n = blockIdx.x;
  const CapeGradients& to = launch.to;
  const std::int64_t counts[] = {hidden * width, hidden, net.heads * hidden, net.heads};
  float* const arrays[] = {to.w1, to.b1, to.w2, to.b2};
  if (n >= counts[blockIdx.y] || !arrays[blockIdx.y]) return;
  const CapeWeightSums sums(launch);
  const double part = blockIdx.y == 0   ? sums.w1(n / width, n % width)
                      : blockIdx.y == 1 ? sums.bias(n)
                      : blockIdx.y == 2 ? sums.w2(n / hidden, n % hidden)
                                        : sums.bias(hidden + n);
  store_shared(shared_memory() + threadIdx.x * 8, part);
  __syncthreads();
  if (threadIdx.x != 0) return;
  double all = 0;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    all += load_shared<double>(shared_memory() + thread * 8);
  }
  arrays[blockIdx.y][n] = static_cast<float>(all);
}

}  // namespace phasescope::kernels::cuda
