#pragma once
// Tiles of 64 rows x D channels of 16-bit values in shared memory, and the products of a warp's
// rows with them: 16 of a tile, or 16 of each of several tiles, which then share what is loaded of
// the other operand. A row is D / 8 chunks of 16 bytes; chunk c of row r lies at place c ^ (r & 7),
// so that the eight rows of a matrix load fall into different banks (rows of 32 channels: two to
// 128 bytes, c ^ (r / 2 & 3)).
//
// Accumulators of 16 rows x kColumns are float[kColumns / 8][4]: element e of [n] is row
// lane / 4 + 8 (e / 2), column 8 n + 2 (lane % 4) + e % 2.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/variants.cuh"

namespace phasescope::kernels::cuda {

template <int D>
inline constexpr int kTileBytes = kRows* D * 2;

template <int D>
__device__ __forceinline__ std::uint32_t chunk_offset(int row, int chunk) {
  static_assert(D == 32 || D % 64 == 0);
  const int place = D == 32 ? chunk ^ (row / 2 & 3) : chunk ^ (row & 7);
  return static_cast<std::uint32_t>((row * (D / 8) + place) * 16);
}

/// Starts copying rows first .. first + 63 of a (rows, channels) tensor, by a block of kBlock
/// threads; what does not exist is 0.
template <typename T, int D, int kBlock = kThreads>
__device__ __forceinline__ void copy_tile(std::uint32_t tile, const T* from, std::int64_t stride,
                                          int first, int rows, int channels) {
  // A thread copies the same chunk of every kBlock / kChunks-th row; where chunks are no power of
  // two, the same one of each panel of 64 channels.
  constexpr int kPanels = D == 192 ? 3 : 1, kChunks = D / 8 / kPanels, kStep = kBlock / kChunks;
  int thread = static_cast<int>(threadIdx.x);
  if constexpr (kBlock > kThreads) compute_anew(thread);
#pragma unroll
  for (int panel = 0; panel < kPanels; ++panel) {
    const int chunk = panel * kChunks + thread % kChunks;
    const bool inside = chunk * 8 < channels;
    const T* source = from + (first + thread / kChunks) * stride + chunk * 8;
#pragma unroll
    for (int n = 0; n < kRows / kStep; ++n) {
      const int row = thread / kChunks + n * kStep;
      const bool valid = inside && first + row < rows;
      copy_async(tile + chunk_offset<D>(row, chunk), valid ? source : from, valid);
      source += kStep * stride;
    }
  }
}

/// Where in a tile a lane's row of the matrices begins that load_operand() loads (and
/// load_values(), transposed), and load_columns().
template <int D>
__device__ __forceinline__ std::uint32_t operand_offset(int first, int d, int lane) {
  return chunk_offset<D>(first + lane % 16, d * 2 + lane / 16);
}
template <int D>
__device__ __forceinline__ std::uint32_t columns_offset(int first, int d, int lane) {
  return chunk_offset<D>(first + (lane / 16) * 8 + lane % 8, d * 2 + (lane / 8) % 2);
}

/// Where a lane's pair of channels of an accumulator [d] lies in a tile.
template <int D>
__device__ __forceinline__ std::uint32_t accumulator_offset(int row, int d, int lane) {
  return chunk_offset<D>(row, d) + static_cast<std::uint32_t>(lane % 4) * 4;
}

/// The 16 x 16 operand at channels 16 d .. of tile rows first .. first + 15.
template <int D>
__device__ __forceinline__ void load_operand(std::uint32_t tile, int first, int d, int lane,
                                             std::uint32_t (&a)[4]) {
  load_matrices(tile + operand_offset<D>(first, d, lane), a);
}

/// The two 16 x 8 operands of tile rows first .. first + 15, as columns, at channels 16 d ..:
/// matrices of rows 0-7 channels 0-7, the same channels 8-15, then rows 8-15.
template <int D>
__device__ __forceinline__ void load_columns(std::uint32_t tile, int first, int d, int lane,
                                             std::uint32_t (&b)[4]) {
  load_matrices(tile + columns_offset<D>(first, d, lane), b);
}

/// The two 16 x 8 operands of tile rows first .. first + 15, as rows, at channels 16 d ..: matrices
/// of rows 0-7 channels 0-7, rows 8-15, then channels 8-15 of both; transposed.
template <int D>
__device__ __forceinline__ void load_values(std::uint32_t tile, int first, int d, int lane,
                                            std::uint32_t (&b)[4]) {
  load_matrices_transposed(tile + operand_offset<D>(first, d, lane), b);
}

/// The 16 x 16 operand whose rows are the tile's channels 16 d .., and whose columns its rows
/// first .. first + 15.
template <int D>
__device__ __forceinline__ void load_exchanged(std::uint32_t tile, int first, int d, int lane,
                                               std::uint32_t (&a)[4]) {
  load_matrices_transposed(tile + columns_offset<D>(first, d, lane), a);
}

/// Entries of a table for the 127 distances of a tile pair: entry n belongs to distance first + n,
/// and thread n of kThreads copies it.
inline constexpr int kEntriesBytes = kThreads * 4;

template <class Score>
__device__ __forceinline__ void copy_entries(std::uint32_t entries, const Score& score,
                                             std::int64_t head, int first,
                                             int n = static_cast<int>(threadIdx.x)) {
  copy_word_async(entries + static_cast<std::uint32_t>(n) * 4, score.entry(head, first + n));
}

/// Bits of a register's pair of channels (c, c + 1) that lie before `content`.
__device__ __forceinline__ std::uint32_t content_bits(int c, int content) {
  return (c < content ? 0xffffu : 0u) | (c + 1 < content ? 0xffff0000u : 0u);
}

/// The operand's channels before content(), and from there on; ones there where the phase is
/// linear: their product with the columns' channels is the columns' sum.
template <typename T, DeviceScore Score>
__device__ __forceinline__ void split_operand(const Score& score, int d, int lane,
                                              const std::uint32_t (&a)[4],
                                              std::uint32_t (&content)[4],
                                              std::uint32_t (&phase)[4]) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const std::uint32_t bits = content_bits(d * 16 + (lane % 4) * 2 + (r / 2) * 8, score.content());
    content[r] = a[r] & bits;
    phase[r] = (score.linear() ? Half<T>::pack(1, 1) : a[r]) & ~bits;
  }
}

/// Dot products of a warp's 16 rows with kColumns rows of a tile. phase: the second ones, where a
/// score has them.
template <int kColumns, DeviceScore Score>
struct Dots {
  float dot[kColumns / 8][4];
  float phase[Score::kDots == 2 ? kColumns / 8 : 1][4];
};

/// Which of the tiles of rows that a block holds take band: from kFirst to kLast - 1.
template <int kFirst_, int kLast_>
struct Bands {
  static constexpr int kFirst = kFirst_, kLast = kLast_;
};
using OneBand = Bands<0, 1>;

/// sums(m) += rows . tile^T of every band m, with the parameters of multiply_rows: what is loaded
/// of the tile feeds two products of each band.
template <typename T, int D, int kColumns, class Which, class Rows, class Sums>
__device__ __forceinline__ void add_products(const Which&, const Rows& rows, std::uint32_t tile,
                                             int first, int lane, const Sums& sums) {
#pragma unroll
  for (int d = 0; d < D / 16; ++d) {
    std::uint32_t a[Which::kLast][4];
#pragma unroll
    for (int m = Which::kFirst; m < Which::kLast; ++m) rows(m, d, a[m]);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t b[4];
      load_columns<D>(tile, first + n * 16, d, lane, b);
#pragma unroll
      for (int m = Which::kFirst; m < Which::kLast; ++m) {
        Half<T>::multiply(sums(m)[2 * n], a[m], b[0], b[1]);
        Half<T>::multiply(sums(m)[2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}
/// The same of one tile of rows.
template <typename T, int D, int kColumns, class Rows>
__device__ __forceinline__ void add_products(const Rows& rows, std::uint32_t tile, int first,
                                             int lane, float (&sums)[kColumns / 8][4]) {
  add_products<T, D, kColumns>(
      OneBand{}, [&](int, int d, std::uint32_t(&a)[4]) { rows(d, a); }, tile, first, lane,
      [&](int) -> float(&)[kColumns / 8][4] { return sums; });
}

/// The same for two dot products of a pair.
template <typename T, int D, int kColumns, DeviceScore Score, class Rows>
__device__ __forceinline__ void add_split_products(const Score& score, const Rows& rows,
                                                   std::uint32_t tile, int first, int lane,
                                                   Dots<kColumns, Score>& s) {
#pragma unroll
  for (int d = 0; d < D / 16; ++d) {
    std::uint32_t a[4], content[4], phase[4];
    rows(d, a);
    split_operand<T>(score, d, lane, a, content, phase);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t b[4];
      load_columns<D>(tile, first + n * 16, d, lane, b);
      if (d * 16 < score.content()) {
        Half<T>::multiply(s.dot[2 * n], content, b[0], b[1]);
        Half<T>::multiply(s.dot[2 * n + 1], content, b[2], b[3]);
      }
      if (d * 16 + 16 > score.content()) {
        Half<T>::multiply(s.phase[2 * n], phase, b[0], b[1]);
        Half<T>::multiply(s.phase[2 * n + 1], phase, b[2], b[3]);
      }
    }
  }
}

/// dots(m) of every band m, of two dot products one alone: rows(m, d, a) gives the operand of
/// channels 16 d ..; the tile's rows are first .. first + kColumns. row_sum(m): of TAPA's linear
/// phase, the sums of the phase channels of the thread's two rows, else 0.
template <typename T, int D, int kColumns, DeviceScore Score, class Which, class Rows, class Sums,
          class Products>
__device__ __forceinline__ void multiply_rows(const Score& score, const Which& bands,
                                              const Rows& rows, const Sums& row_sum,
                                              std::uint32_t tile, int first, int lane,
                                              const Products& dots) {
#pragma unroll
  for (int m = Which::kFirst; m < Which::kLast; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        dots(m).dot[n][e] = 0;
        if constexpr (Score::kDots == 2) dots(m).phase[n][e] = row_sum(m)[e / 2];
      }
    }
  }
  if constexpr (Score::kDots == 1) {
    add_products<T, D, kColumns>(bands, rows, tile, first, lane,
                                 [&](int m) -> float(&)[kColumns / 8][4] { return dots(m).dot; });
  } else {
    constexpr int kBand = Which::kFirst;
    static_assert(Which::kLast == kBand + 1);
    add_split_products<T, D, kColumns>(
        score, [&](int d, std::uint32_t(&a)[4]) { rows(kBand, d, a); }, tile, first, lane,
        dots(kBand));
  }
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/// Sums of the phase channels of the thread's two rows where TAPA's phase is linear, else 0.
template <typename T, int D, DeviceScore Score, class Rows>
__device__ __forceinline__ void sum_rows(const Score& score, const Rows& rows, int lane,
                                         float (&row_sum)[2]) {
  row_sum[0] = row_sum[1] = 0;
  if constexpr (Score::kDots == 2) {
    if (!score.linear()) return;
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      std::uint32_t a[4];
      rows(d, a);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const std::uint32_t kept =
            a[r] & ~content_bits(d * 16 + (lane % 4) * 2 + (r / 2) * 8, score.content());
        row_sum[r % 2] += Half<T>::low(kept) + Half<T>::high(kept);
      }
    }
    row_sum[0] = quad_sum(row_sum[0]);
    row_sum[1] = quad_sum(row_sum[1]);
  }
}

/// Accumulators of 16 x 16 as an operand of the next product: two of 16 x 8 are one as they stand.
template <typename T>
__device__ __forceinline__ void pack_operand(const float (&low)[4], const float (&high)[4],
                                             std::uint32_t (&a)[4]) {
  a[0] = Half<T>::pack(low[0], low[1]);
  a[1] = Half<T>::pack(low[2], low[3]);
  a[2] = Half<T>::pack(high[0], high[1]);
  a[3] = Half<T>::pack(high[2], high[3]);
}

/// sums(m) += w(m) . tile of every band m: weights of 16 rows x kColumns times the tile's rows
/// first .. first + kColumns.
template <typename T, int D, int kColumns, class Which, class Weights, class Sums>
__device__ __forceinline__ void accumulate(const Which&, const Weights& w, std::uint32_t tile,
                                           int first, int lane, const Sums& sums) {
#pragma unroll
  for (int n = 0; n < kColumns / 16; ++n) {
    std::uint32_t a[Which::kLast][4];
#pragma unroll
    for (int m = Which::kFirst; m < Which::kLast; ++m) {
      pack_operand<T>(w(m)[2 * n], w(m)[2 * n + 1], a[m]);
    }
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      std::uint32_t b[4];
      load_values<D>(tile, first + n * 16, d, lane, b);
#pragma unroll
      for (int m = Which::kFirst; m < Which::kLast; ++m) {
        Half<T>::multiply(sums(m)[2 * d], a[m], b[0], b[1]);
        Half<T>::multiply(sums(m)[2 * d + 1], a[m], b[2], b[3]);
      }
    }
  }
}
/// The same of one tile of rows.
template <typename T, int D, int kColumns>
__device__ __forceinline__ void accumulate(const float (&w)[kColumns / 8][4], std::uint32_t tile,
                                           int first, int lane, float (&sums)[D / 8][4]) {
  accumulate<T, D, kColumns>(
      OneBand{}, [&](int) -> const float(&)[kColumns / 8][4] { return w; }, tile, first, lane,
      [&](int) -> float(&)[D / 8][4] { return sums; });
}

/// The gradients of a pair's dot products as operands; phase: of the second one, where there are
/// two.
struct GradientOperands {
  std::uint32_t dot[4], phase[4];
};

/// sums += the gradients . b, of channels 16 d .. of tile rows as load_values() gives them: d dot
/// with the channels before content(), d phase with those from there on, or with ones where the
/// phase is linear.
template <typename T, DeviceScore Score>
__device__ __forceinline__ void multiply_gradients(const Score& score,
                                                   const GradientOperands& gradients, int d,
                                                   int lane, const std::uint32_t (&b)[4],
                                                   float (&low)[4], float (&high)[4]) {
  if constexpr (Score::kDots == 1) {
    Half<T>::multiply(low, gradients.dot, b[0], b[1]);
    Half<T>::multiply(high, gradients.dot, b[2], b[3]);
  } else {
    const std::uint32_t one = Half<T>::pack(1, 1);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float(&sums)[4] = h == 0 ? low : high;
      const int channel = d * 16 + h * 8;
      // A lane has the values of one channel.
      const std::uint32_t kept = channel + lane / 4 < score.content() ? ~0u : 0u;
      if (channel < score.content()) {
        Half<T>::multiply(sums, gradients.dot, b[2 * h] & kept, b[2 * h + 1] & kept);
      }
      if (channel + 8 > score.content()) {
        Half<T>::multiply(sums, gradients.phase, (score.linear() ? one : b[2 * h]) & ~kept,
                          (score.linear() ? one : b[2 * h + 1]) & ~kept);
      }
    }
  }
}

/// The gradients of two dot products of a pair.
template <typename T, int D, int kColumns, DeviceScore Score>
__device__ __forceinline__ void accumulate_split(const Score& score,
                                                 const Dots<kColumns, Score>& gradients,
                                                 std::uint32_t tile, int first, int lane,
                                                 float (&sums)[D / 8][4]) {
#pragma unroll
  for (int n = 0; n < kColumns / 16; ++n) {
    GradientOperands a;
    pack_operand<T>(gradients.dot[2 * n], gradients.dot[2 * n + 1], a.dot);
    pack_operand<T>(gradients.phase[2 * n], gradients.phase[2 * n + 1], a.phase);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      std::uint32_t b[4];
      load_values<D>(tile, first + n * 16, d, lane, b);
      multiply_gradients<T>(score, a, d, lane, b, sums[2 * d], sums[2 * d + 1]);
    }
  }
}

/// sums(m) += the gradients of a chunk of every band m times tile rows, as multiply_gradients()
/// does.
template <typename T, int D, int kColumns, DeviceScore Score, class Which, class Gradients,
          class Sums>
__device__ __forceinline__ void accumulate_gradients(const Score& score, const Which& bands,
                                                     const Gradients& gradients, std::uint32_t tile,
                                                     int first, int lane, const Sums& sums) {
  if constexpr (Score::kDots == 1) {
    accumulate<T, D, kColumns>(
        bands, [&](int m) -> const float(&)[kColumns / 8][4] { return gradients(m).dot; }, tile,
        first, lane, sums);
  } else {
    static_assert(Which::kLast == 1);
    accumulate_split<T, D, kColumns>(score, gradients(0), tile, first, lane, sums(0));
  }
}

/// Writes the thread's row `half` of accumulators times factor(channel), channels below `channels`.
template <typename T, int D, class Factor>
__device__ __forceinline__ void write_row(T* row, const float (&sums)[D / 8][4], int half,
                                          const Factor& factor, int channels, int lane) {
#pragma unroll
  for (int d = 0; d < D / 8; ++d) {
    const int channel = d * 8 + (lane % 4) * 2;
    if (channel >= channels) continue;
    *reinterpret_cast<std::uint32_t*>(row + channel) = Half<T>::pack(
        sums[d][2 * half] * factor(channel), sums[d][2 * half + 1] * factor(channel + 1));
  }
}

/// 16 bytes.
struct alignas(16) Words {
  std::uint32_t x[4];
};
struct alignas(16) Floats {
  float x[4];
};

/// Writes the first `count` of a warp's 16 rows of accumulators, times factor(half), through its
/// rows of a tile in shared memory: 16 bytes leave at once. All lanes call it.
template <typename T, int D, class Factor>
__device__ __forceinline__ void write_through(std::uint32_t tile, int warp, int lane, T* rows,
                                              std::int64_t stride, int count, int channels,
                                              const float (&sums)[D / 8][4], const Factor& factor) {
  __syncwarp();
#pragma unroll
  for (int d = 0; d < D / 8; ++d) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      store_shared(
          tile + accumulator_offset<D>(warp * 16 + lane / 4 + 8 * half, d, lane),
          Half<T>::pack(sums[d][2 * half] * factor(half), sums[d][2 * half + 1] * factor(half)));
    }
  }
  __syncwarp();
  constexpr int kChunks = D / 8, kStep = 32 / kChunks;
  const int chunk = lane % kChunks;
#pragma unroll
  for (int n = 0; n < 16 / kStep; ++n) {
    const int row = lane / kChunks + n * kStep;
    if (row >= count || chunk * 8 >= channels) continue;
    *reinterpret_cast<Words*>(rows + row * stride + chunk * 8) =
        load_shared<Words>(tile + chunk_offset<D>(warp * 16 + row, chunk));
  }
}

}  // namespace phasescope::kernels::cuda
