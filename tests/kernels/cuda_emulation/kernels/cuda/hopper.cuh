#pragma once
// Stands in for the instructions of the Hopper form when kernels/cuda is compiled for the CPU
// (emulator.h). Names, parameters and layouts are those of the header it replaces; where a
// descriptor's numbers lie is worked out here once more, from the PTX ISA ("Asynchronous Warpgroup
// Level Matrix Shared Memory Layout") as CuTe writes it down (make_gmma_desc).

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cuda/mma.cuh"

namespace phasescope::kernels::cuda {

struct TensorMap {
  InputTensor tensor;
  std::int64_t channels = 0, rows = 0, heads = 0, batch = 0;
};

/// What the driver refuses: strides off 16 bytes, sizes of 0.
inline TensorMap tensor_map(const InputTensor& tensor, std::int64_t channels, std::int64_t rows,
                            std::int64_t heads, std::int64_t batch) {
  for (const std::int64_t stride : {tensor.row, tensor.head, tensor.batch}) {
    if (stride <= 0 || stride % 8 != 0) throw std::runtime_error("The driver refuses a stride.");
  }
  for (const std::int64_t size : {channels, rows, heads, batch}) {
    if (size <= 0) throw std::runtime_error("The driver refuses a size.");
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0) {
    throw std::runtime_error("The driver refuses an address.");
  }
  return {tensor, channels, rows, heads, batch};
}

/// Bits 4 to 6 of an address are turned by bits 7 to 9.
constexpr std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 3 & 0x70); }

inline void copy_box(std::uint32_t to, const TensorMap& map, int channel, int row, int head,
                     int batch, std::uint32_t barrier, Place where = Place::current()) {
  const auto write = [=](char* box) {
    for (std::uint32_t n = 0; n < 64; ++n) {
      for (std::uint32_t c = 0; c < 64; ++c) {
        const std::int64_t r = row + static_cast<std::int64_t>(n);
        const std::int64_t d = channel + static_cast<std::int64_t>(c);
        std::uint16_t value = 0;
        if (r >= 0 && r < map.rows && d < map.channels && head < map.heads && batch < map.batch) {
          value = static_cast<const std::uint16_t*>(
              map.tensor.data)[batch * map.tensor.batch + head * map.tensor.head +
                               r * map.tensor.row + d];
        }
        std::memcpy(box + swizzled(n * 128 + c * 2), &value, 2);
      }
    }
  };
  emulation::copy_tile(to, 8192, barrier, write, where);
}

inline void make_barrier(std::uint32_t barrier, unsigned count, Place where = Place::current()) {
  emulation::make_barrier(barrier, count, where);
}
inline void fence_barriers() { emulation::fence_barriers(); }
inline void arrive(std::uint32_t barrier, Place where = Place::current()) {
  emulation::arrive(barrier, 0, where);
}
inline void arrive_expecting(std::uint32_t barrier, std::uint32_t bytes,
                             Place where = Place::current()) {
  emulation::arrive(barrier, bytes, where);
}
inline void arrive_with_copies(std::uint32_t barrier, Place where = Place::current()) {
  emulation::arrive_with_copies(barrier, where);
}
inline void wait_phase(std::uint32_t barrier, unsigned parity, Place where = Place::current()) {
  emulation::wait_phase(barrier, parity, where);
}
template <int kCount = 128>
void sync_group(int id, Place where = Place::current()) {
  emulation::join_named(static_cast<unsigned>(id), kCount, where);
}

template <int kRegisters>
void keep_registers() {}
template <int kRegisters>
void take_registers() {}

inline std::uint64_t descriptor(std::uint32_t address) {
  return std::uint64_t{1} << 62 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 16 |
         (address & 0x3ffff) >> 4;
}

inline void fence_products(Place where = Place::current()) {
  emulation::join_warp([](void* const*) { emulation::warp_products().fence(); }, nullptr, where);
}
inline void commit_products(Place where = Place::current()) {
  emulation::join_warp([](void* const*) { emulation::warp_products().commit(); }, nullptr, where);
}
template <int kPending>
void wait_products(Place where = Place::current()) {
  emulation::join_warp([](void* const*) { emulation::warp_products().wait(kPending); }, nullptr,
                       where);
}

template <int kCount>
void hold(float (&)[kCount][4]) {}
template <int kCount>
void hold(std::uint32_t (&)[kCount][4]) {}

/// Number (k, n) of b, 16 x 64. Columns of 16 channels: ((8, 8), 16) numbers lie at (128, stride)
/// and 2 bytes; rows of 64 channels: 64 at 2 bytes, (8, 2) rows at (128, stride).
template <bool kByRows>
std::uint32_t place_of(std::uint64_t b, std::uint32_t k, std::uint32_t n) {
  const auto start = static_cast<std::uint32_t>(b & 0x3fff) << 4;
  const auto stride = static_cast<std::uint32_t>(b >> 32 & 0x3fff) << 4;
  if (b >> 62 != 1 || (b >> 49 & 7) != 0) emulation::fail("has a descriptor of another layout");
  return kByRows ? swizzled(start + n * 2 + k % 8 * 128 + k / 8 * stride)
                 : swizzled(start + k * 2 + n % 8 * 128 + n / 8 * stride);
}

/// The numbers (k, n) of a tile that products read, as `to(k, n)`: kCount of n, 16 of k. Two
/// columns of a row share a word, or two rows of a column do.
template <float (*kToFloat)(std::uint16_t), bool kByRows, class To>
void read_tile(std::uint64_t tile, std::uint32_t first, std::uint32_t count, const To& to) {
  for (std::uint32_t k = 0; k < 16; ++k) {
    for (std::uint32_t n = first; n < first + count; ++n) {
      const std::uint32_t at = place_of<kByRows>(tile, k, n);
      std::uint32_t word = 0;
      emulation::warp_read_copied(at & ~3u, &word, 4);
      to(k, n - first) =
          static_cast<double>(kToFloat(static_cast<std::uint16_t>(word >> (at % 4 * 8))));
    }
  }
}

using LeftOperand = std::array<std::array<double, 16>, 16>;  // of a warp
using RightOperand = std::array<std::array<double, 64>, 16>;

inline void add_product(const LeftOperand& a, const RightOperand& b, int adds,
                        const std::vector<float*>& sums) {
  for (std::size_t row = 0; row < 16; ++row) {
    double all[64] = {};
    for (std::size_t k = 0; k < 16; ++k) {
      for (std::size_t n = 0; n < 64; ++n) all[n] += a[row][k] * b[k][n];
    }
    for (std::size_t n = 0; n < 64; ++n) {
      float& c = sums[row % 8 * 4 + n % 8 / 2][n / 8 * 4 + row / 8 * 2 + n % 2];
      c = static_cast<float>((adds != 0 ? static_cast<double>(c) : 0) + all[n]);
    }
  }
}

/// A lane's part of a product: of rows in registers `a`, of rows of a tile its descriptor.
struct GroupLane {
  float* c;
  const std::uint32_t* a;
  std::uint64_t rows, b;
  int adds;
};
template <float (*kToFloat)(std::uint16_t), bool kByRows, bool kRowsInTile>
void multiply_group_of_warp(void* const* lanes) {
  emulation::WarpProducts::Product product;
  LeftOperand a{};
  const auto& leader = *static_cast<const GroupLane*>(lanes[0]);
  for (int n = 0; n < 32; ++n) {
    const auto& lane = *static_cast<const GroupLane*>(lanes[n]);
    if (lane.b != leader.b || lane.adds != leader.adds || lane.rows != leader.rows) {
      emulation::fail("multiplies by other tiles");
    }
    product.sums.push_back(lane.c);
    if constexpr (kRowsInTile) continue;
    const int g = n / 4, t = n % 4;
    for (int r = 0; r < 4; ++r) {
      for (int e = 0; e < 2; ++e) {
        a[static_cast<std::size_t>(g + 8 * (r % 2))]
         [static_cast<std::size_t>(2 * t + 8 * (r / 2) + e)] =
             static_cast<double>(kToFloat(static_cast<std::uint16_t>(lane.a[r] >> (16 * e))));
      }
    }
  }
  const std::uint32_t warp = threadIdx.x / 32 % 4;
  product.multiply = [a, warp, rows = leader.rows, b = leader.b,
                      adds = leader.adds](const std::vector<float*>& sums) mutable {
    RightOperand of_b{};
    read_tile<kToFloat, kByRows>(
        b, 0, 64, [&](std::uint32_t k, std::uint32_t n) -> double& { return of_b[k][n]; });
    if constexpr (kRowsInTile) {
      read_tile<kToFloat, false>(
          rows, warp * 16, 16,
          [&](std::uint32_t k, std::uint32_t row) -> double& { return a[row][k]; });
    }
    add_product(a, of_b, adds, sums);
  };
  emulation::warp_products().begin(std::move(product));
}

template <typename T>
struct ToFloat;
template <>
struct ToFloat<__nv_bfloat16> {
  static constexpr float (*kCall)(std::uint16_t) = testing::from_bfloat16;
};
template <>
struct ToFloat<__half> {
  static constexpr float (*kCall)(std::uint16_t) = testing::from_float16;
};

template <typename T, bool kByRows>
void multiply_group(float (&c)[8][4], const std::uint32_t (&a)[4], std::uint64_t b, int adds = 1,
                    Place where = Place::current()) {
  GroupLane lane{&c[0][0], a, 0, b, adds};
  emulation::join_warp(&multiply_group_of_warp<ToFloat<T>::kCall, kByRows, false>, &lane, where);
}
template <typename T>
void multiply_tiles(float (&c)[8][4], std::uint64_t a, std::uint64_t b, int adds = 1,
                    Place where = Place::current()) {
  GroupLane lane{&c[0][0], nullptr, a, b, adds};
  emulation::join_warp(&multiply_group_of_warp<ToFloat<T>::kCall, false, true>, &lane, where);
}

}  // namespace phasescope::kernels::cuda
