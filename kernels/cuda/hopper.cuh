#pragma once
// The instructions of the Hopper form: barriers in shared memory, copies of tensors (TMA), products
// of a warpgroup (wgmma, 64 x 64 x 16). All its PTX is here; tests/kernels/cuda_emulation has a
// header of this name for the CPU. Layouts and descriptors are those of the PTX ISA, sections
// "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and "Matrix Descriptor Format".

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/attention.h"
#include "kernels/cuda/cuda_check.h"

namespace phasescope::kernels::cuda {

// ---- Tensors -----------------------------------------------------------------------------------

/// A (B, H, N, d) tensor as copies read it: boxes of 64 rows and 64 channels, zeros beyond its end,
/// chunks of 16 bytes swizzled over 128 bytes.
using TensorMap = CUtensorMap;

/// Sizes are not 0. Throws CudaError where the driver refuses.
inline TensorMap tensor_map(const InputTensor& tensor, std::int64_t channels, std::int64_t rows,
                            std::int64_t heads, std::int64_t batch) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  PHASESCOPE_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                   cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) PHASESCOPE_CUDA(cudaErrorNotSupported);
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t sizes[] = {size(channels), size(rows), size(heads), size(batch)};
  const cuuint64_t strides[] = {size(tensor.row * 2), size(tensor.head * 2),
                                size(tensor.batch * 2)};
  const cuuint32_t box[] = {64, 64, 1, 1}, steps[] = {1, 1, 1, 1};
  TensorMap map;
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      &map,
      tensor.storage == Storage::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                          : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      4, const_cast<void*>(tensor.data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) PHASESCOPE_CUDA(cudaErrorInvalidValue);
  return map;
}

/// Starts copying the box at these places to 8192 bytes of shared memory from `to` on, a multiple
/// of 1024; they arrive at a barrier. One thread calls it.
__device__ __forceinline__ void copy_box(std::uint32_t to, const TensorMap& map, int channel,
                                         int row, int head, int batch, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2];\n" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(channel), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

// ---- Barriers in shared memory -----------------------------------------------------------------

/// A barrier of 8 bytes whose phases end when `count` have arrived and all bytes have that they
/// expect. Used by others after fence_barriers() of its maker and the next __syncthreads.
__device__ __forceinline__ void make_barrier(std::uint32_t barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void arrive_expecting(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Arrives when all copies by words that the thread has begun have (copy_word_async).
__device__ __forceinline__ void arrive_with_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(barrier) : "memory");
}
/// Until the phase of that parity has ended; a new barrier is in phase 0. All lanes of a warp call
/// it.
__device__ __forceinline__ void wait_phase(std::uint32_t barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "TRY:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@ended bra ENDED;\n"
      "bra TRY;\n"
      "ENDED:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
/// __syncthreads of the kCount threads that name this barrier, from 1 on.
template <int kCount = 128>
__device__ __forceinline__ void sync_group(int id) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "n"(kCount) : "memory");
}

/// The warpgroup's threads have so many registers from here on. Before: at most so many, at least.
template <int kRegisters>
__device__ __forceinline__ void keep_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

// ---- Products of a warpgroup -------------------------------------------------------------------

/// What says where 64 rows of 128 bytes lie, from `address` on: 8 rows after 8 rows, swizzled.
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t address) {
  constexpr std::uint64_t kSwizzled = std::uint64_t{1} << 62;
  constexpr std::uint64_t kStride = std::uint64_t{1024 >> 4} << 32;
  constexpr std::uint64_t kLeading = std::uint64_t{1} << 16;  // has no meaning here
  return kSwizzled | kStride | kLeading | ((address & 0x3ffff) >> 4);
}

/// Before the first product of a group, after registers were written.
__device__ __forceinline__ void fence_products() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}

/// Keeps registers in their places until here: products that the compiler does not see read or
/// write them.
template <int kCount>
__device__ __forceinline__ void hold(float (&sums)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(sums[n][e]));
  }
}
template <int kCount>
__device__ __forceinline__ void hold(std::uint32_t (&operands)[kCount][4]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
#pragma unroll
    for (int r = 0; r < 4; ++r) asm volatile("" : "+r"(operands[n][r]));
  }
}

// The sums are operands 0 to 31; the left operand is `a`, by the constraint that stands for it.
#define PHASESCOPE_WGMMA(type, adds, a, b, ...)                                                   \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred adds;\n"                                                                        \
      "setp.ne.b32 adds, " adds                                                                   \
      ", 0;\n"                                                                                    \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                 \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "   \
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " a ", " b               \
      ";\n"                                                                                       \
      "}\n"                                                                                       \
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), \
        "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), \
        "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), \
        "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), \
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), \
        "+f"(c[7][2]), "+f"(c[7][3])                                                              \
      : __VA_ARGS__)
#define PHASESCOPE_WGMMA_BY_REGISTERS(type)                                                \
  PHASESCOPE_WGMMA(type, "%37", "{%32, %33, %34, %35}", "%36, adds, 1, 1, %38", "r"(a[0]), \
                   "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds), "n"(kByRows ? 1 : 0))
#define PHASESCOPE_WGMMA_OF_TILES(type) \
  PHASESCOPE_WGMMA(type, "%34", "%32", "%33, adds, 1, 1, 0, 0", "l"(a), "l"(b), "r"(adds))

/// c (+)= a b of the warpgroup's 64 rows: a warp has 16 of them, c and a as in tile.cuh. b is 16 x
/// 64, at a descriptor: its columns are rows of the tile there, 16 channels of each; or (kByRows)
/// its rows are, 16 of them with 64 channels. The sums are there after wait_products().
template <typename T, bool kByRows>
__device__ __forceinline__ void multiply_group(float (&c)[8][4], const std::uint32_t (&a)[4],
                                               std::uint64_t b, int adds = 1) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    PHASESCOPE_WGMMA_BY_REGISTERS("bf16");
  } else {
    PHASESCOPE_WGMMA_BY_REGISTERS("f16");
  }
}
/// The same of rows that lie in shared memory too: a is 64 x 16 at a descriptor, rows of the tile
/// there with 16 channels of each, and so are b's columns.
template <typename T>
__device__ __forceinline__ void multiply_tiles(float (&c)[8][4], std::uint64_t a, std::uint64_t b,
                                               int adds = 1) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    PHASESCOPE_WGMMA_OF_TILES("bf16");
  } else {
    PHASESCOPE_WGMMA_OF_TILES("f16");
  }
}
#undef PHASESCOPE_WGMMA_OF_TILES
#undef PHASESCOPE_WGMMA_BY_REGISTERS
#undef PHASESCOPE_WGMMA

}  // namespace phasescope::kernels::cuda
