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
