#pragma once
// CAPE's network on the device, and what the biases' part of it is made of: tables by distance, or
// over FIRE the pieces that both the first layer's part and the biases are linear in.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cape_memory.h"
#include "kernels/cuda/cape_mma.cuh"
#include "kernels/cuda/variants.cuh"
#include "kernels/variants/cape_tables.h"

namespace phasescope::kernels::cuda {

/// Where a pair reads the biases' part: at its distance, or at u in a segment of FIRE.
template <bool kFire>
struct CapePlace {
  std::int64_t entry;
};
template <>
struct CapePlace<true> {
  float u;
  int segment;
};

/// A number as two of tf32's.
struct Tf32Parts {
  std::uint32_t high, low;

  __device__ explicit Tf32Parts(float x) : high(to_tf32(x)), low(to_tf32(x - of_tf32(high))) {}
};

/// All pointers are device memory. The biases' part has a row for each hidden unit, w1_B B + b1,
/// then one for each head, B (residual forms) + b2.
struct CapeNetwork {
  CapeVariant cape;
  CapeLayout layout;
  FireVariant fire;  // of CAPE over it
  std::int64_t heads;
  std::int64_t queries;
  std::int64_t distances;  // lambda from 0 on: every one in use
  float* tables;           // (rows, distances), or (rows, segments, 2): slopes and intercepts
  CapeWeights* split;      // (kCapeProducts, head tiles, unit tiles, lanes)

  constexpr int head_tiles() const { return static_cast<int>((heads + 7) / 8); }
  constexpr int unit_tiles() const { return static_cast<int>((cape.hidden + 7) / 8); }
  __device__ const CapeWeights& weights(CapeProduct product, int head_tile, int unit_tile,
                                        int lane) const {
    return split[((product * head_tiles() + head_tile) * unit_tiles() + unit_tile) * 32 + lane];
  }

  /// Of pairs that a mask leaves out, some place.
  template <bool kFire>
  __device__ CapePlace<kFire> place(std::int64_t query, std::int64_t lambda) const {
    if constexpr (kFire) {
      const float u = distance(lambda) * factor(query);
      return {u, knots_below(u)};
    } else {
      return {clamped(lambda, distances)};
    }
  }
  __device__ float at(std::int64_t row, const CapePlace<false>& place) const {
    return tables[row * distances + place.entry];
  }
  __device__ float at(std::int64_t row, const CapePlace<true>& place) const {
    const float2 line = piece(row, place.segment);
    return fmaf(line.x, place.u, line.y);
  }

  __device__ float2 piece(std::int64_t row, int segment) const {
    return reinterpret_cast<const float2*>(tables)[row * fire.segments + segment];
  }
  __device__ float distance(std::int64_t lambda) const {
    return fire.distance[clamped(lambda, fire.length)];
  }
  __device__ float factor(std::int64_t query) const { return fire.factor[clamped(query, queries)]; }
  __device__ float start(std::int64_t segment) const {
    return segment > 0 ? fire.knots[segment - 1] : 0;
  }
  __device__ int knots_below(float u) const {
    int first = 0, last = static_cast<int>(fire.segments) - 1;
    while (first < last) {
      const int middle = (first + last) / 2;
      if (fire.knots[middle] < u) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return first;
  }
  /// Bias of a head; 0 where the form reads none.
  __device__ float bias(std::int64_t head, std::int64_t lambda) const {
    const bool none = cape.form == CapeForm::content || lambda >= cape.length;
    return none ? 0 : cape.values[head * cape.head_stride + lambda];
  }
};

/// Computes network.tables, of FIRE or not, and network.split.
void launch_cape_tables(const CudaAttention& attention, const CapeNetwork& network);

}  // namespace phasescope::kernels::cuda
