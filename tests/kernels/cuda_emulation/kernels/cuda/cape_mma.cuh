#pragma once
// Stands in for the products of tf32 numbers when kernels/cuda is compiled for the CPU
// (emulator.h), in the layout of the PTX ISA (m16n8k8, .tf32). A lane has group g = lane / 4 and
// place t = lane % 4 in it.

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/mma.cuh"

namespace phasescope::kernels::cuda {

/// 13 bits less, ties away from zero.
inline std::uint32_t to_tf32(float x) {
  if (std::isnan(x)) return 0x7fffe000u;
  return (std::bit_cast<std::uint32_t>(x) + 0x1000u) & 0xffffe000u;
}

inline float of_tf32(std::uint32_t x) { return std::bit_cast<float>(x); }

struct Tf32Lane {
  float* c;
  const std::uint32_t *a, *b;
};
inline double operand_of(std::uint32_t bits) {
  // What a device does with the other bits no one has promised.
  if (bits & 0x1fffu) emulation::fail("an operand that is no tf32 number");
  return static_cast<double>(of_tf32(bits));
}
inline void multiply_tf32_of_warp(void* const* lanes) {
  double a[16][8];
  Columns b[8];
  for (int n = 0; n < 32; ++n) {
    const auto& lane = *static_cast<Tf32Lane*>(lanes[n]);
    const int g = n / 4, t = n % 4;
    for (int r = 0; r < 4; ++r) a[g + 8 * (r % 2)][t + 4 * (r / 2)] = operand_of(lane.a[r]);
    for (int r = 0; r < 2; ++r) b[t + 4 * r].set(g, operand_of(lane.b[r]));
  }
  for (int row = 0; row < 16; ++row) {
    const Columns sums = times(a[row], b);
    for (int column = 0; column < 8; ++column) {
      auto* lane = static_cast<Tf32Lane*>(lanes[row % 8 * 4 + column / 2]);
      float& c = lane->c[row / 8 * 2 + column % 2];
      c = static_cast<float>(static_cast<double>(c) + sums.at(column));
    }
  }
}
inline void multiply_tf32(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                          emulation::Place where = emulation::Place::current()) {
  Tf32Lane lane{c, a, b};
  emulation::join_warp(&multiply_tf32_of_warp, &lane, where);
}

}  // namespace phasescope::kernels::cuda
