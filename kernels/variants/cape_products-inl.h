// Sums over the pairs of a block, for the weights of CAPE's network.
#if defined(PHASESCOPE_VARIANTS_CAPE_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASESCOPE_VARIANTS_CAPE_PRODUCTS_INL_H
#undef PHASESCOPE_VARIANTS_CAPE_PRODUCTS_INL_H
#else
#define PHASESCOPE_VARIANTS_CAPE_PRODUCTS_INL_H
#endif

#include <vector>

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
#pragma GCC unroll 4
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

/// Adds all rows of x (rows, kBackwardRow) times all rows of y, `depth` vectors each; sums: (rows,
/// columns, kLanes).
inline HWY_NOINLINE void add_lane_products(const float* x, std::int64_t rows, const float* y,
                                           std::int64_t columns, std::int64_t depth, float* sums) {
  for (std::int64_t r = 0; r < rows;) {
    const bool tall = r + 2 <= rows;
    for (std::int64_t c = 0; c < columns;) {
      const bool wide = c + 4 <= columns;
      float* at = sums + (r * columns + c) * kLanes;
      const float* a = x + r * kBackwardRow;
      const float* b = y + c * kBackwardRow;
      if (tall && wide) {
        lane_tile<2, 4>(a, b, depth, at, columns);
      } else if (wide) {
        lane_tile<1, 4>(a, b, depth, at, columns);
      } else if (tall) {
        lane_tile<2, 1>(a, b, depth, at, columns);
      } else {
        lane_tile<1, 1>(a, b, depth, at, columns);
      }
      c += wide ? 4 : 1;
    }
    r += tall ? 2 : 1;
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

HWY_INLINE void add_unaligned(float* at, Vec x) {
  store_unaligned(hn::Add(load_unaligned(at), x), at);
}

}  // namespace phasescope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
