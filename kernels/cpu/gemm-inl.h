// The small matrix products all kernels are made of: vectors of lanes times broadcast scalars.
//
// Versions that were measured: a score tile's sums kept in registers, the plain forward pass 1.7
// times as fast.
#if defined(PHASESCOPE_CPU_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_CPU_GEMM_INL_H
#undef PHASESCOPE_CPU_GEMM_INL_H
#else
#define PHASESCOPE_CPU_GEMM_INL_H
#endif

#include <algorithm>

#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

/// acc[r][v] += sum_d rows[r][d] * x[d][v]: scores of R keys and one panel of queries, whose
/// vectors before kFirst are left out. x: (dim, kPanel) aligned. `rows` may repeat a row. The sums
/// are an array of their own: what others index in loops the compiler keeps in memory, and would
/// store after every step (half the speed).
template <int kFirst = 0, int R>
HWY_INLINE void dot_tile(const float* const (&rows)[R], const float* HWY_RESTRICT x,
                         std::int64_t dim, Vec (&acc)[R][kVecs]) {
  Vec sums[R][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = kFirst; v < kVecs; ++v) sums[r][v] = acc[r][v];
  }
  for (std::int64_t d = 0; d < dim; ++d) {
    Vec xs[kVecs];
#pragma GCC unroll 4
    for (int v = kFirst; v < kVecs; ++v) xs[v] = load(x + d * kPanel + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec a = set(rows[r][d]);
#pragma GCC unroll 4
      for (int v = kFirst; v < kVecs; ++v) sums[r][v] = hn::MulAdd(a, xs[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = kFirst; v < kVecs; ++v) acc[r][v] = sums[r][v];
  }
}

/// Operands of c[r][lane] += sum_k a[r * a_row + k * a_col] * x[k * x_row + lane].
struct Product {
  const float* a;
  std::int64_t a_row;
  std::int64_t a_col;
  const float* x;  ///< rows of lanes, aligned
  std::int64_t x_row;
  float* c;  ///< rows of lanes, aligned
  std::int64_t c_row;
  std::int64_t depth;  ///< number of k
  /// Where a_row is 1: rows come in strips of kTileKeys, a_strip kTileKeys apart; 1: side by side.
  std::int64_t a_strip = 1;
};

/// One register tile: R rows, V vectors. The sum starts at 0 and is added to memory once, so that
/// no chain of additions is longer than `depth` plus the number of calls. kUnitRow: a_row is 1.
template <bool kUnitRow, int R, int V>
HWY_INLINE void product_tile(const Product& p, std::int64_t row, std::int64_t lane) {
  Vec acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = zero();
  }
  const std::int64_t in_strip = row % kTileKeys;
  const float* HWY_RESTRICT a =
      p.a + (kUnitRow ? (row - in_strip) * p.a_strip + in_strip : row * p.a_row);
  const float* HWY_RESTRICT x = p.x + lane;
  const std::int64_t a_row = kUnitRow ? 1 : p.a_row, a_col = p.a_col, x_row = p.x_row;
  for (std::int64_t k = 0; k < p.depth; ++k) {
    Vec xs[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) xs[v] = load(x + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec b = set(a[r * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(b, xs[v], acc[r][v]);
    }
    a += a_col;
    x += x_row;
  }
  float* HWY_RESTRICT c = p.c + row * p.c_row + lane;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* at = c + r * p.c_row + v * kLanes;
      store(hn::Add(load(at), acc[r][v]), at);
    }
  }
}

/// `rows` rows of V vectors, in tiles of R and smaller ones for the rest.
template <bool kUnitRow, int R, int V>
HWY_INLINE void product_rows(const Product& p, std::int64_t rows, std::int64_t lane) {
  std::int64_t row = 0;
  for (; row + R <= rows; row += R) product_tile<kUnitRow, R, V>(p, row, lane);
  if constexpr (R > 4) {
    for (; row + 4 <= rows; row += 4) product_tile<kUnitRow, 4, V>(p, row, lane);
  }
  for (; row < rows; ++row) product_tile<kUnitRow, 1, V>(p, row, lane);
}

/// All rows for one panel of lanes.
inline HWY_NOINLINE void multiply_panel(const Product& p, std::int64_t rows) {
  if (p.a_row == 1) {
    product_rows<true, kTileKeys, kVecs>(p, rows, 0);
  } else {
    product_rows<false, kTileKeys, kVecs>(p, rows, 0);
  }
}

/// The same, a_row 1, where the first vector of x is 0 from row `end` on (which may lie before the
/// first), the second kLanes rows later: a triangle of weights costs little more than its half.
inline HWY_NOINLINE void multiply_triangle(Product p, std::int64_t rows, std::int64_t end) {
  static_assert(kVecs == 3);
  const std::int64_t depth = p.depth;
  std::int64_t begin = 0;
  for (int v = 0; v < kVecs; ++v) {
    const std::int64_t next =
        v + 1 < kVecs ? std::clamp<std::int64_t>(end + v * kLanes, begin, depth) : depth;
    p.depth = next - begin;
    if (p.depth == 0) continue;
    if (v == 0) product_rows<true, kTileKeys, 3>(p, rows, 0);
    if (v == 1) product_rows<true, kTileKeys, 2>(p, rows, kLanes);
    if (v == 2) product_rows<true, kTileKeys, 1>(p, rows, 2 * kLanes);
    p.a += p.depth * p.a_col;
    p.x += p.depth * p.x_row;
    begin = next;
  }
}

/// All rows for `vecs` vectors of lanes (channels); a_row is a stride over queries, never 1.
inline HWY_NOINLINE void multiply_wide(const Product& p, std::int64_t rows, std::int64_t vecs) {
  std::int64_t v = 0;
  if constexpr (kLanes >= 16) {
    for (; vecs - v == 4 || vecs - v >= 8; v += 4) product_rows<false, 6, 4>(p, rows, v * kLanes);
  }
  for (; v + 3 <= vecs; v += 3) product_rows<false, kTileKeys, 3>(p, rows, v * kLanes);
  for (; v + 2 <= vecs; v += 2) product_rows<false, kTileKeys, 2>(p, rows, v * kLanes);
  for (; v < vecs; ++v) product_rows<false, kTileKeys, 1>(p, rows, v * kLanes);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
