// Sums over the pairs of a block, for the weights of CAPE's network.
#if defined(PHASESCOPE_VARIANTS_CAPE_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_CAPE_PRODUCTS_INL_H
#undef PHASESCOPE_VARIANTS_CAPE_PRODUCTS_INL_H
#else
#define PHASESCOPE_VARIANTS_CAPE_PRODUCTS_INL_H
#endif

#include <vector>

#include "kernels/cpu/diagonals-inl.h"
#include "kernels/variants/cape-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasescope::kernels::HWY_NAMESPACE {

// Keys of a block of the backward pass: six arrays of a block are in use at once.
inline constexpr int kBackwardKeys = 16;
inline constexpr std::int64_t kBackwardRow = cape_row(kBackwardKeys);

/// sums[r][c] (vectors of lanes) += sum over `depth` vectors of x[r] * y[c].
template <int R, int C>
HWY_INLINE void lane_tile(const float* x, const float* y, std::int64_t depth, float* sums,
                          std::int64_t columns) {
  Vec acc[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) acc[r][c] = zero();
  }
  for (std::int64_t n = 0; n < depth; ++n) {
    Vec ys[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) ys[c] = load(y + c * kBackwardRow + n * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec a = load(x + r * kBackwardRow + n * kLanes);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) acc[r][c] = hn::MulAdd(a, ys[c], acc[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      float* at = sums + (r * columns + c) * kLanes;
      store(hn::Add(load(at), acc[r][c]), at);
    }
  }
}

/// C columns; R rows at a time, fewer of the rest. R C is 8 where there are enough: as many
/// multiply-adds as two ports have under way.
template <int R, int C>
HWY_INLINE void lane_columns(const float* x, std::int64_t rows, const float* y, std::int64_t depth,
                             float* sums, std::int64_t columns) {
  std::int64_t r = 0;
  for (; r + R <= rows; r += R) {
    lane_tile<R, C>(x + r * kBackwardRow, y, depth, sums + r * columns * kLanes, columns);
  }
  if constexpr (R > 1) {
    lane_columns<R / 2, C>(x + r * kBackwardRow, rows - r, y, depth, sums + r * columns * kLanes,
                           columns);
  }
}

/// Adds all rows of x (rows, kBackwardRow) times all rows of y, `depth` vectors each; sums: (rows,
/// columns, kLanes).
inline HWY_NOINLINE void add_lane_products(const float* x, std::int64_t rows, const float* y,
                                           std::int64_t columns, std::int64_t depth, float* sums) {
  std::int64_t c = 0;
  for (; c + 4 <= columns; c += 4) {
    lane_columns<2, 4>(x, rows, y + c * kBackwardRow, depth, sums + c * kLanes, columns);
  }
  for (; c + 2 <= columns; c += 2) {
    lane_columns<4, 2>(x, rows, y + c * kBackwardRow, depth, sums + c * kLanes, columns);
  }
  if (c < columns) {
    lane_columns<8, 1>(x, rows, y + c * kBackwardRow, depth, sums + c * kLanes, columns);
  }
}

/// Adds what add_lane_products() left, in float64.
inline void add_lane_sums(std::vector<double>& to, const float* sums) {
  for (std::size_t n = 0; n < to.size(); ++n) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      to[n] += static_cast<double>(sums[n * kLanes + lane]);
    }
  }
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
