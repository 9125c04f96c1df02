#pragma once
// Stands in for the PTX instructions when kernels/cuda is compiled for the CPU (emulator.h). Names,
// parameters and layouts are those of the header it replaces. A lane has group g = lane / 4 and
// place t = lane % 4 in it; registers hold two 16-bit values, the lower one first.

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/kernels/half_types.h"

struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct __half {
  std::uint16_t bits;
};

namespace phasescope::kernels::cuda {

using emulation::Place;

inline std::uint32_t shared_memory() { return 0; }

template <typename T>
T load_shared(std::uint32_t address, Place where = Place::current()) {
  T value;
  emulation::read_shared(address, &value, sizeof(T), where);
  return value;
}
template <typename T>
void store_shared(std::uint32_t address, T value, Place where = Place::current()) {
  emulation::write_shared(address, &value, sizeof(T), where);
}

inline void copy_async(std::uint32_t to, const void* from, bool valid,
                       Place where = Place::current()) {
  emulation::copy_async(to, from, 16, valid, where);
}
inline void copy_word_async(std::uint32_t to, const void* from, Place where = Place::current()) {
  emulation::copy_async(to, from, 4, true, where);
}
inline void commit_copies() { emulation::commit_copies(); }
template <int kPending>
void wait_copies() {
  emulation::wait_copies(kPending);
}

/// Registers are no matter here.
template <typename... Numbers>
void compute_anew(Numbers&...) {}

inline float fast_exp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0 : y;
}

/// ldmatrix.x4: lane n gives the address of row n % 8 of matrix n / 8; of each matrix, lane n gets
/// the values 2t and 2t + 1 of row g, or transposed of column g.
struct MatrixLane {
  std::uint32_t address;
  std::uint32_t* r;
};
template <bool kTransposed>
void load_matrices_of_warp(void* const* lanes) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t m[8][8];
    for (int row = 0; row < 8; ++row) {
      const auto* lane = static_cast<MatrixLane*>(lanes[matrix * 8 + row]);
      emulation::warp_read_shared(lane->address, m[row], 16);
    }
    for (int n = 0; n < 32; ++n) {
      const int g = n / 4, t = n % 4;
      const std::uint32_t low = kTransposed ? m[2 * t][g] : m[g][2 * t];
      const std::uint32_t high = kTransposed ? m[2 * t + 1][g] : m[g][2 * t + 1];
      static_cast<MatrixLane*>(lanes[n])->r[matrix] = low | (high << 16);
    }
  }
}
inline void load_matrices(std::uint32_t address, std::uint32_t (&r)[4],
                          Place where = Place::current()) {
  MatrixLane lane{address, r};
  emulation::join_warp(&load_matrices_of_warp<false>, &lane, where);
}
inline void load_matrices_transposed(std::uint32_t address, std::uint32_t (&r)[4],
                                     Place where = Place::current()) {
  MatrixLane lane{address, r};
  emulation::join_warp(&load_matrices_of_warp<true>, &lane, where);
}

/// mma.m16n8k16: lane n holds of a (16 x 16) the rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8,
/// 2t + 8 and the next; of b (16 x 8) the rows 2t and 2t + 8 and the next of column g; of c (16 x
/// 8) the columns 2t and 2t + 1 of row g, then of row g + 8.
struct ProductLane {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
};
/// A row of b or of the sums, in two numbers of the compiler's own: the emulation is compiled
/// without its loops being turned into such.
struct Columns {
  using Half [[gnu::vector_size(32)]] = double;
  Half left, right;

  void set(int column, double x) { (column < 4 ? left : right)[column % 4] = x; }
  double at(int column) const { return (column < 4 ? left : right)[column % 4]; }
};
/// A row of a times b: the products one after the other, as many as b has rows.
template <int kRows>
Columns times(const double (&a)[kRows], const Columns (&b)[kRows]) {
  Columns::Half left = {}, right = {};
  for (int k = 0; k < kRows; ++k) {
    left += a[k] * b[k].left;
    right += a[k] * b[k].right;
  }
  return {left, right};
}
template <float (*kToFloat)(std::uint16_t)>
void multiply_warp(void* const* lanes) {
  double a[16][16];
  Columns b[16];
  for (int n = 0; n < 32; ++n) {
    const auto& lane = *static_cast<ProductLane*>(lanes[n]);
    const int g = n / 4, t = n % 4;
    for (int r = 0; r < 4; ++r) {
      for (int e = 0; e < 2; ++e) {
        a[g + 8 * (r % 2)][2 * t + 8 * (r / 2) + e] =
            static_cast<double>(kToFloat(static_cast<std::uint16_t>(lane.a[r] >> (16 * e))));
      }
    }
    for (int r = 0; r < 2; ++r) {
      for (int e = 0; e < 2; ++e) {
        b[2 * t + 8 * r + e].set(
            g, static_cast<double>(kToFloat(static_cast<std::uint16_t>(lane.b[r] >> (16 * e)))));
      }
    }
  }
  for (int row = 0; row < 16; ++row) {
    const Columns sums = times(a[row], b);
    for (int column = 0; column < 8; ++column) {
      auto* lane = static_cast<ProductLane*>(lanes[row % 8 * 4 + column / 2]);
      float& c = lane->c[row / 8 * 2 + column % 2];
      c = static_cast<float>(static_cast<double>(c) + sums.at(column));
    }
  }
}

template <std::uint16_t (*kFromFloat)(float), float (*kToFloat)(std::uint16_t)>
struct HalfOf {
  static void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                       std::uint32_t b1, Place where = Place::current()) {
    ProductLane lane{c, a, {b0, b1}};
    emulation::join_warp(&multiply_warp<kToFloat>, &lane, where);
  }
  static std::uint32_t pack(float low, float high) {
    return kFromFloat(low) | (static_cast<std::uint32_t>(kFromFloat(high)) << 16);
  }
  static float low(std::uint32_t pair) { return kToFloat(static_cast<std::uint16_t>(pair)); }
  static float high(std::uint32_t pair) { return kToFloat(static_cast<std::uint16_t>(pair >> 16)); }
};

template <typename T>
struct Half;
template <>
struct Half<__nv_bfloat16> : HalfOf<testing::to_bfloat16, testing::from_bfloat16> {};
template <>
struct Half<__half> : HalfOf<testing::to_float16, testing::from_float16> {};

}  // namespace phasescope::kernels::cuda
