#pragma once
// The backward pass in Ampere form, the same bits every time: no atomics. Scores are computed again
// from q, k and the saved log-sum-exp, once for each result:
//
//   attention_delta_kernel      delta = d_out . out of a row
//   attention_dq_kernel         a block of 64 queries goes over the tiles of keys
//   attention_dkv_kernel        a block of 64 keys goes over the tiles of queries of its group's
//                               heads, with rows and columns of the products exchanged
//   attention_diagonals_kernel  a table's gradient: a block goes over the tile pairs of one
//   distance attention_table_kernel      joins what two neighbouring distances of tiles left for an
//   entry
//
// Ladder of versions (gains are measured on a device, none has been so far):
//   1. this one: one stage of copies, chunks of 32 columns to keep registers low; not yet run.

#include <cuda_runtime.h>

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/scores.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kColumns = 32;  // of a chunk

template <DeviceScore Score>
struct BackwardLaunch {
  Problem<Score> problem;
  CudaSavedForward saved;
  CudaGradients gradients;
  float* delta;      // (B, heads, queries)
  float* diagonals;  // (heads, tiles of queries + tiles of keys, kThreads)
};

/// Shared memory: of the rows and of the columns their q or k, d_out or v, d_out_state or state;
/// then entries, log-sum-exp and delta of 64 queries, and gradients of a tile pair's scores.
template <int D, DeviceScore Score>
struct BackwardLayout {
  static constexpr int kStateDim = D / 2;
  struct Tiles {
    std::uint32_t dots, values, state;
  };
  static constexpr std::uint32_t kTiles =
      2 * kTileBytes<D> + (Score::kState ? kTileBytes<kStateDim> : 0);
  static constexpr Tiles tiles(std::uint32_t first) {
    return {first, first + kTileBytes<D>, first + 2 * kTileBytes<D>};
  }
  static constexpr std::uint32_t kEntries = 2 * kTiles;
  static constexpr std::uint32_t kLse = kEntries + (Score::kEntries ? kEntriesBytes : 0);
  static constexpr std::uint32_t kDelta = kLse + kRows * 4;
  static constexpr std::uint32_t kGradients = kDelta + kRows * 4;
  static constexpr int kBytes = static_cast<int>(kGradients);
  static constexpr int kDiagonalsBytes = kBytes + kRows * kRows * 4;
};

/// What the three kernels over tile pairs share. Rows are queries and columns keys, or, transposed,
/// the other way round.
template <typename T, int D, bool kTransposed, DeviceScore Score>
class TilePair {
  using Layout = BackwardLayout<D, Score>;

 public:
  static constexpr int kStateDim = Layout::kStateDim;
  float weight[kColumns / 8][4];   // of a chunk
  float d_score[kColumns / 8][4];  // natural units
  Dots<kColumns, Score> gradient;  // of the dot products, before factor(channel)

  __device__ TilePair(const BackwardLaunch<Score>& launch)
      : launch_(launch),
        problem_(launch.problem),
        shape_(launch.problem.shape),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        shared_(shared_memory()),
        rows_(Layout::tiles(shared_)),
        columns_(Layout::tiles(shared_ + Layout::kTiles)) {}

  __device__ int warp() const { return warp_; }
  __device__ int lane() const { return lane_; }
  __device__ int channels() const { return static_cast<int>(shape_.head_dim); }
  __device__ int state_channels() const { return static_cast<int>(problem_.state_dim); }
  __device__ int queries() const { return static_cast<int>(shape_.queries); }
  __device__ int keys() const { return static_cast<int>(shape_.keys); }
  __device__ int group() const { return static_cast<int>(shape_.heads / shape_.kv_heads); }
  __device__ int position(int query) const { return query + static_cast<int>(shape_.query_offset); }
  __device__ std::uint32_t gradients() const { return shared_ + Layout::kGradients; }

  /// Starts copying 64 queries of a head, with their log-sum-exp and delta.
  __device__ void fetch_queries(int batch, int head, int first) {
    const auto tiles = kTransposed ? columns_ : rows_;
    const CudaSavedForward& saved = launch_.saved;
    copy_tile<T, D>(tiles.dots, pointer<T>(problem_.q, batch, head), problem_.q.row, first,
                    queries(), channels());
    copy_tile<T, D>(tiles.values, pointer<T>(saved.d_out, batch, head), saved.d_out.row, first,
                    queries(), channels());
    if constexpr (Score::kState) {
      const CudaTensor& d_state = saved.d_out_state;
      copy_tile<T, kStateDim>(tiles.state, pointer<T>(d_state, batch, head), d_state.row, first,
                              d_state.data ? queries() : 0, state_channels());
    }
    const int n = static_cast<int>(threadIdx.x) % kRows, query = first + n;
    const bool exists = query < queries();
    const std::int64_t at = (batch * shape_.heads + head) * shape_.queries + query;
    if (threadIdx.x < kRows) {
      // Rows that do not exist or see no key: +inf makes every weight 0.
      const float lse = exists ? saved.lse[at] * kLog2e : INFINITY;
      store_shared(shared_ + Layout::kLse + static_cast<std::uint32_t>(n) * 4,
                   lse == -INFINITY ? INFINITY : lse);
    } else {
      store_shared(shared_ + Layout::kDelta + static_cast<std::uint32_t>(n) * 4,
                   exists ? launch_.delta[at] : 0.0f);
    }
  }

  /// Starts copying 64 keys of a kv head.
  __device__ void fetch_keys(int batch, int kv_head, int first) {
    const auto tiles = kTransposed ? rows_ : columns_;
    copy_tile<T, D>(tiles.dots, pointer<T>(problem_.k, batch, kv_head), problem_.k.row, first,
                    keys(), channels());
    copy_tile<T, D>(tiles.values, pointer<T>(problem_.v, batch, kv_head), problem_.v.row, first,
                    keys(), channels());
    if constexpr (Score::kState) {
      copy_tile<T, kStateDim>(tiles.state, pointer<T>(problem_.state, batch, kv_head),
                              problem_.state.row, first, keys(), state_channels());
    }
  }

  /// Starts copying the entries of the pair of tiles whose first query and key these are.
  __device__ void fetch_entries(int head, int first_query, int first_key) {
    if constexpr (Score::kEntries) {
      copy_entries(shared_ + Layout::kEntries, problem_.score, head,
                   Chunk<false>::first_distance(position(first_query), first_key));
    }
  }

  /// The rest, once the copies have arrived.
  __device__ void begin_rows() { sum_rows<T, D>(problem_.score, dot_rows(), lane_, row_sum_); }

  /// Weights and gradients of the chunk from column `first` of the pair.
  __device__ void compute(const Visibility& visibility, int first_query, int first_key, int first) {
    const int query = position(first_query);
    const Chunk<kTransposed> chunk(kTransposed ? first_key : query, kTransposed ? query : first_key,
                                   first, warp_, lane_);
    Dots<kColumns, Score> dots;
    multiply_rows<T, D>(problem_.score, dot_rows(), row_sum_, columns_.dots, first, lane_, dots);
    float t[kColumns / 8][4];
    score_chunk(problem_, dots, shared_ + Layout::kEntries, chunk, t);
    weigh(chunk, visibility, t);
    multiply_values(first);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float delta = of_query(Layout::kDelta, chunk, n, e);
        const float tangent = problem_.soft_cap > 0 ? t[n][e] / problem_.soft_cap : 0;
        const float p = weight[n][e];
        const float ds = p == 0 ? 0 : p * (d_score[n][e] - delta) * (1 - tangent * tangent);
        d_score[n][e] = ds;
        const float phase = Score::kDots == 2 ? dots.phase[Score::kDots == 2 ? n : 0][e] : 0;
        const float entry = entry_of<Score>(shared_ + Layout::kEntries, chunk, n, e);
        const DotGradients d = problem_.score.gradient(ds, dots.dot[n][e], phase, entry);
        gradient.dot[n][e] = d.dot;
        if constexpr (Score::kDots == 2) gradient.phase[n][e] = d.phase;
      }
    }
  }

  /// sums += gradients . (k of the keys, or transposed q of the queries).
  __device__ void add_dots(int first, float (&sums)[D / 8][4]) const {
    accumulate_gradients<T, D>(problem_.score, gradient, columns_.dots, first, lane_, sums);
  }
  /// Transposed: sums += weights . d_out of the queries.
  __device__ void add_values(int first, float (&sums)[D / 8][4]) const {
    accumulate<T, D, kColumns>(weight, columns_.values, first, lane_, sums);
  }
  __device__ void add_state(int first, float (&sums)[kStateDim / 8][4]) const {
    accumulate<T, kStateDim, kColumns>(weight, columns_.state, first, lane_, sums);
  }

  /// Writes the thread's two rows, of the 64 from `first` on, where they exist.
  template <int kDim, class Factor>
  __device__ void write(const CudaTensor& to, int batch, int head, int first, int count, int width,
                        const float (&sums)[kDim / 8][4], const Factor& factor) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + warp_ * 16 + lane_ / 4 + 8 * half;
      if (row >= count) continue;
      write_row<T, kDim>(pointer<T>(to, batch, head) + row * to.row, sums, half, factor, width,
                         lane_);
    }
  }

 private:
  __device__ auto rows_of(std::uint32_t tile) const {
    return [this, tile](int d, std::uint32_t(&a)[4]) {
      load_operand<D>(tile, warp_ * 16, d, lane_, a);
    };
  }
  __device__ auto dot_rows() const { return rows_of(rows_.dots); }

  /// The log-sum-exp or delta of an element's query.
  __device__ float of_query(std::uint32_t array, const Chunk<kTransposed>& chunk, int n,
                            int e) const {
    const int at =
        kTransposed ? chunk.column_in_tile + n * 8 + e % 2 : chunk.row_in_tile + 8 * (e / 2);
    return load_shared<float>(shared_ + array + static_cast<std::uint32_t>(at) * 4);
  }

  __device__ void weigh(const Chunk<kTransposed>& chunk, const Visibility& visibility,
                        const float (&t)[kColumns / 8][4]) {
    constexpr int kLast = kColumns - 1;
    const int row = chunk.row + warp_ * 16;
    const int column = chunk.column_of(0, 0) - (lane_ % 4) * 2;
    const bool whole = kTransposed ? visibility.whole(column, column + kLast, row, row + 15)
                                   : visibility.whole(row, row + 15, column, column + kLast);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool visible = whole || visibility.visible(chunk.position(n, e), chunk.key(n, e));
        weight[n][e] = visible ? exp2f(t[n][e] - of_query(Layout::kLse, chunk, n, e)) : 0;
      }
    }
  }

  /// d_score = d_out . v (+ d_out_state . state), the gradients of the weights.
  __device__ void multiply_values(int first) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) d_score[n][e] = 0;
    }
    add_products<T, D, kColumns>(rows_of(rows_.values), columns_.values, first, lane_, d_score);
    if constexpr (Score::kState) {
      const auto rows = [this](int d, std::uint32_t(&a)[4]) {
        load_operand<kStateDim>(rows_.state, warp_ * 16, d, lane_, a);
      };
      add_products<T, kStateDim, kColumns>(rows, columns_.state, first, lane_, d_score);
    }
  }

  const BackwardLaunch<Score>& launch_;
  const Problem<Score>& problem_;
  const AttentionShape& shape_;
  int warp_, lane_;
  std::uint32_t shared_;
  typename Layout::Tiles rows_, columns_;
  float row_sum_[2] = {0, 0};
};

/// delta of a row, one warp a row: grid.x blocks of four rows.
template <typename T>
struct DeltaLaunch {
  AttentionShape shape;
  int state_dim;
  CudaSavedForward saved;
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
  const auto row_of = [&](const CudaTensor& t) { return pointer<T>(t, batch, head) + row * t.row; };
  const CudaSavedForward& saved = launch.saved;
  float sum =
      dot_of_rows(row_of(saved.out), row_of(saved.d_out), static_cast<int>(s.head_dim), lane);
  if (launch.state_dim > 0 && saved.d_out_state.data) {
    sum += dot_of_rows(row_of(saved.out_state), row_of(saved.d_out_state), launch.state_dim, lane);
  }
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (lane == 0) launch.delta[at] = sum;
}

template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kThreads)
    attention_dq_kernel(const __grid_constant__ BackwardLaunch<Score> launch) {
  TilePair<T, D, false, Score> pair(launch);
  const int batch = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y);
  // The longest rows first.
  const int query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kRows;
  const Visibility visibility(launch.problem, batch);
  const Stretch seen =
      visibility.keys({pair.position(query), pair.position(min(query + kRows, pair.queries()))});
  float dq[D / 8][4] = {};
  pair.fetch_queries(batch, head, query);
  for (int key = seen.first / kRows * kRows; key < seen.last; key += kRows) {
    pair.fetch_keys(batch, head / pair.group(), key);
    pair.fetch_entries(head, query, key);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    pair.begin_rows();
    for (int first = 0; first < kRows; first += kColumns) {
      pair.compute(visibility, query, key, first);
      pair.add_dots(first, dq);
    }
    __syncthreads();
  }
  commit_copies();
  wait_copies<0>();
  const Score& score = launch.problem.score;
  pair.template write<D>(launch.gradients.dq, batch, head, query, pair.queries(), pair.channels(),
                         dq, [&](int channel) { return score.factor(channel); });
}

template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kThreads)
    attention_dkv_kernel(const __grid_constant__ BackwardLaunch<Score> launch) {
  using Pair = TilePair<T, D, true, Score>;
  Pair pair(launch);
  const int batch = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const int key = static_cast<int>(blockIdx.x) * kRows;  // the longest columns first
  const Visibility visibility(launch.problem, batch);
  const Stretch seen = visibility.queries({key, min(key + kRows, pair.keys())});
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};
  [[maybe_unused]] float d_state[Score::kState ? Pair::kStateDim / 8 : 1][4] = {};
  pair.fetch_keys(batch, kv_head, key);
  for (int n = 0; n < pair.group(); ++n) {
    const int head = kv_head * pair.group() + n;
    for (int query = seen.first / kRows * kRows; query < seen.last; query += kRows) {
      pair.fetch_queries(batch, head, query);
      pair.fetch_entries(head, query, key);
      commit_copies();
      wait_copies<0>();
      __syncthreads();
      pair.begin_rows();
      for (int first = 0; first < kRows; first += kColumns) {
        pair.compute(visibility, query, key, first);
        pair.add_values(first, dv);
        pair.add_dots(first, dk);
        if constexpr (Score::kState) pair.add_state(first, d_state);
      }
      __syncthreads();
    }
  }
  commit_copies();
  wait_copies<0>();
  const auto once = [](int) { return 1.0f; };
  const Score& score = launch.problem.score;
  const CudaGradients& to = launch.gradients;
  pair.template write<D>(to.dk, batch, kv_head, key, pair.keys(), pair.channels(), dk,
                         [&](int channel) { return score.factor(channel); });
  pair.template write<D>(to.dv, batch, kv_head, key, pair.keys(), pair.channels(), dv, once);
  if constexpr (Score::kState) {
    if (to.d_state.data) {
      pair.template write<Pair::kStateDim>(to.d_state, batch, kv_head, key, pair.keys(),
                                           pair.state_channels(), d_state, once);
    }
  }
}

/// Sums of the scores' gradients over the diagonals of all pairs of tiles (I, J) with I - J =
/// blockIdx.x - (tiles of keys - 1), over the batch; thread n holds the diagonal at distance
/// 64 (I - J) + query_offset - 63 + n.
template <typename T, int D, DeviceScore Score>
__global__ void __launch_bounds__(kThreads)
    attention_diagonals_kernel(const __grid_constant__ BackwardLaunch<Score> launch) {
  TilePair<T, D, false, Score> pair(launch);
  const int head = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  const int key_tiles = (pair.keys() + kRows - 1) / kRows;
  const int query_tiles = (pair.queries() + kRows - 1) / kRows;
  const int ahead = static_cast<int>(blockIdx.x) - (key_tiles - 1);
  float sum = 0;
  for (int batch = 0; batch < static_cast<int>(launch.problem.shape.batch); ++batch) {
    const Visibility visibility(launch.problem, batch);
    for (int tile = max(0, ahead); tile < min(query_tiles, key_tiles + ahead); ++tile) {
      const int query = tile * kRows, key = (tile - ahead) * kRows;
      const Stretch seen = visibility.keys(
          {pair.position(query), pair.position(min(query + kRows, pair.queries()))});
      if (key >= seen.last || key + kRows <= seen.first) continue;
      pair.fetch_queries(batch, head, query);
      pair.fetch_keys(batch, head / pair.group(), key);
      pair.fetch_entries(head, query, key);
      commit_copies();
      wait_copies<0>();
      __syncthreads();
      pair.begin_rows();
      for (int first = 0; first < kRows; first += kColumns) {
        pair.compute(visibility, query, key, first);
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = pair.warp() * 16 + pair.lane() / 4 + 8 * (e / 2);
            const int column = first + n * 8 + (pair.lane() % 4) * 2 + e % 2;
            store_shared(pair.gradients() + static_cast<std::uint32_t>(row * kRows + column) * 4,
                         pair.d_score[n][e]);
          }
        }
      }
      __syncthreads();
      // Row r, column r + 63 - thread, where there is one.
      float part = 0;
      for (int row = max(0, thread - (kRows - 1)); row < min(kRows, thread + 1); ++row) {
        const int column = row + kRows - 1 - thread;
        part += load_shared<float>(pair.gradients() +
                                   static_cast<std::uint32_t>(row * kRows + column) * 4);
      }
      sum += part;
      __syncthreads();
    }
  }
  const std::int64_t at = static_cast<std::int64_t>(head) * gridDim.x + blockIdx.x;
  launch.diagonals[at * kThreads + thread] = sum;
}

/// Entries of a table's gradient from the diagonals: one thread an entry.
struct TableLaunch {
  AttentionShape shape;
  TableVariant table;
  const float* diagonals;
  int tile_distances;  // of them a head
  float* d_table;
  std::int64_t d_table_stride;
};

__device__ inline float diagonal_sum(const TableLaunch& launch, const float* diagonals,
                                     std::int64_t distance) {
  const std::int64_t key_tiles = (launch.shape.keys + kRows - 1) / kRows;
  // Tile distance m holds 64 m + offset - 63 .. 64 m + offset + 63.
  const std::int64_t shifted = distance - launch.shape.query_offset + (key_tiles - 1) * kRows;
  const std::int64_t whole = shifted >= 0 ? shifted / kRows : (shifted - (kRows - 1)) / kRows;
  const std::int64_t rest = shifted - whole * kRows;
  const auto part = [&](std::int64_t tile, std::int64_t n) {
    return tile >= 0 && tile < launch.tile_distances ? diagonals[tile * kThreads + n] : 0.0f;
  };
  const float sum = part(whole, rest + kRows - 1);
  return rest == 0 ? sum : sum + part(whole + 1, rest - 1);
}

inline __global__ void __launch_bounds__(kThreads)
    attention_table_kernel(const __grid_constant__ TableLaunch launch) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= launch.table.length) return;
  const float* diagonals =
      launch.diagonals + static_cast<std::int64_t>(blockIdx.y) * launch.tile_distances * kThreads;
  float sum = diagonal_sum(launch, diagonals, n + launch.table.first_distance);
  if (launch.table.first_distance == 0 && n > 0) sum += diagonal_sum(launch, diagonals, -n);
  launch.d_table[blockIdx.y * launch.d_table_stride + n] = sum;
}

}  // namespace phasescope::kernels::cuda
