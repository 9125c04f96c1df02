#pragma once
// What blocks in Hopper form have in common, forward and backward: three groups of four warps, of
// which one copies and two compute, and a ring of stages between them.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/tile.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kHopperGroups = 2;  // that compute
inline constexpr int kHopperThreads = (kHopperGroups + 1) * kThreads;
// 128 threads with 40 registers and 256 with 232: the 64 Ki of a multiprocessor.
inline constexpr int kCopierRegisters = 40, kComputerRegisters = 232;

/// Tiles of 64 rows lie in panels of 64 channels, a row of a panel in 128 bytes.
inline constexpr std::uint32_t kPanelBytes = kRows * 128;
/// Where the 16 bytes of a chunk lie in a tile of panels.
__device__ __forceinline__ std::uint32_t panel_offset(int row, int chunk) {
  return chunk_offset<64>(row, chunk % 8) + static_cast<std::uint32_t>(chunk / 8) * kPanelBytes;
}

/// The calling thread's group, of which number kHopperGroups copies, and its warp of the group.
__device__ __forceinline__ int own_group() { return static_cast<int>(threadIdx.x) / kThreads; }
__device__ __forceinline__ int own_warp() { return static_cast<int>(threadIdx.x) / 32 % 4; }
__device__ __forceinline__ int own_lane() { return static_cast<int>(threadIdx.x) % 32; }

/// Where a block's shared memory begins: at a boundary that swizzled panels need, for which a
/// layout has as many bytes more.
inline constexpr std::uint32_t kHopperAlignment = 1024;
__device__ __forceinline__ std::uint32_t hopper_memory() {
  return (shared_memory() + kHopperAlignment - 1) / kHopperAlignment * kHopperAlignment;
}

/// All threads of a block call it: one warp copy(), those that compute compute(), when
/// make_barriers() has been called by one thread; each with the registers of its group.
template <int kOfCopier, int kOfComputers, class Make, class Copy, class Compute>
__device__ __forceinline__ void run_groups(int group, int warp, const Make& make_barriers,
                                           const Copy& copy, const Compute& compute) {
  if (threadIdx.x == 0) make_barriers();
  __syncthreads();
  if (group == kHopperGroups) {
    keep_registers<kOfCopier>();
    if (warp == 0) copy();
  } else {
    take_registers<kOfComputers>();
    compute();
  }
}

/// A place in the ring of stages, and the parity of its turn.
template <int kStages>
struct Turn {
  int stage = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Starts copying the first panels of the 64 rows of a head from `row` on; one thread calls it.
__device__ __forceinline__ void copy_panels(std::uint32_t to, const TensorMap& map, int panels,
                                            int row, int head, int batch, std::uint32_t barrier) {
  for (int panel = 0; panel < panels; ++panel) {
    copy_box(to + static_cast<std::uint32_t>(panel) * kPanelBytes, map, panel * 64, row, head,
             batch, barrier);
  }
}

}  // namespace phasescope::kernels::cuda
