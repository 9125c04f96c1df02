#pragma once
// The instructions of CAPE's network: 16 x 8 x 8 products of tf32 numbers. The other instructions
// are in mma.cuh; tests/kernels/cuda_emulation has a header of this name for the CPU.

#include <cstdint>

namespace phasescope::kernels::cuda {

/// The nearest number of 11 significant bits, as an operand; NaN stays NaN.
__device__ __forceinline__ std::uint32_t to_tf32(float x) {
  std::uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float of_tf32(std::uint32_t x) { return __uint_as_float(x); }

/// c += a b: a is 16 x 8 by rows, b 8 x 8 by columns. Lane 4g + t holds of a the rows g, g + 8, g,
/// g + 8 at columns t, t, t + 4, t + 4; of b the rows t and t + 4 of column g; of c the columns 2t
/// and 2t + 1 of row g, then of row g + 8.
__device__ __forceinline__ void multiply_tf32(float (&c)[4], const std::uint32_t (&a)[4],
                                              const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace phasescope::kernels::cuda
