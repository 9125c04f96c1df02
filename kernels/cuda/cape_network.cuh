#pragma once
// CAPE's network on the device, and its tables by distance.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/variants.cuh"
#include "kernels/variants/cape_tables.h"

namespace phasescope::kernels::cuda {

/// All pointers are device memory.
struct CapeNetwork {
  CapeVariant cape;
  CapeLayout layout;
  std::int64_t heads;
  std::int64_t distances;  // lambda from 0 on: every one in use
  float* tables;           // (hidden + heads, distances): w1_B B + b1, then B (residual forms) + b2

  __device__ const float* hidden(std::int64_t unit) const { return tables + unit * distances; }
  __device__ const float* base(std::int64_t head) const { return hidden(cape.hidden + head); }
  /// Of pairs that a mask leaves out, some entry.
  __device__ std::int64_t entry(std::int64_t distance) const {
    return clamped(distance, distances);
  }
  /// Bias of a head; 0 where the form reads none.
  __device__ float bias(std::int64_t head, std::int64_t lambda) const {
    const bool none = cape.form == CapeForm::content || lambda >= cape.length;
    return none ? 0 : cape.values[head * cape.head_stride + lambda];
  }
};

/// Computes network.tables.
void launch_cape_tables(const CudaAttention& attention, const CapeNetwork& network);

}  // namespace phasescope::kernels::cuda
