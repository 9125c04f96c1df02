#pragma once
// The instructions of the Ampere form: shared memory, asynchronous copies, matrix loads, 16 x 8 x
// 16 products. All PTX is here; tests/kernels/cuda_emulation has a header of this name for the CPU.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace phasescope::kernels::cuda {

/// The block's dynamic shared memory, as an address for the functions below.
__device__ __forceinline__ std::uint32_t shared_memory() {
  extern __shared__ __align__(128) char shared[];
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

template <typename T>
__device__ __forceinline__ T load_shared(std::uint32_t address) {
  return *static_cast<const T*>(__cvta_shared_to_generic(address));
}
template <typename T>
__device__ __forceinline__ void store_shared(std::uint32_t address, T value) {
  *static_cast<T*>(__cvta_shared_to_generic(address)) = value;
}

/// 16 bytes from global to shared memory; zeros where `valid` is false (nothing is read then).
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
/// 4 bytes from global to shared memory.
__device__ __forceinline__ void copy_word_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from computing before a loop what follows from these numbers: it would hold
/// that in registers where there are none left.
template <typename... Numbers>
__device__ __forceinline__ void compute_anew(Numbers&... numbers) {
  (..., [&] { asm volatile("" : "+r"(numbers)); }());
}

/// Four 8 x 8 matrices of 16-bit values; each lane gives the address of one row of 8.
__device__ __forceinline__ void load_matrices(std::uint32_t address, std::uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t address,
                                                         std::uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// 2^x to 2^-22; 0 below 2^-126. One instruction, where exp2f takes three for such results.
__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

/// What depends on the 16-bit type. Registers hold pairs, the lower value first.
template <typename T>
struct Half;

template <>
struct Half<__nv_bfloat16> {
  /// c += a b: a is 16 x 16 by rows, b 16 x 8 by columns.
  static __device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                                  std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  static __device__ __forceinline__ float low(std::uint32_t pair) {
    return __uint_as_float(pair << 16);
  }
  static __device__ __forceinline__ float high(std::uint32_t pair) {
    return __uint_as_float(pair & 0xffff0000u);
  }
};

template <>
struct Half<__half> {
  static __device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                                  std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ std::uint32_t pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  static __device__ __forceinline__ float low(std::uint32_t pair) {
    return __low2float(*reinterpret_cast<const __half2*>(&pair));
  }
  static __device__ __forceinline__ float high(std::uint32_t pair) {
    return __high2float(*reinterpret_cast<const __half2*>(&pair));
  }
};

}  // namespace phasescope::kernels::cuda
