#pragma once
// The device memory of CAPE's passes, linear in queries and keys: scores of all heads exist for one
// strip of query rows at a time.

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_cuda.h"

namespace phasescope::kernels::cuda {

/// Sizes of arrays, and where they lie in the memory given.
struct CapeMemory {
  /// memory null: the sizes alone. Throws nothing; the problem has been checked.
  CapeMemory(const CudaAttention& attention, void* memory, bool backward);

  std::int64_t distances = 0;  ///< lambda from 0 on: every one in use
  std::int64_t rows = 0;       ///< of a strip: whole tiles
  std::int64_t keys = 0;       ///< in whole tiles
  std::int64_t units = 0;      ///< hidden units, whole fours

  float* tables = nullptr;  ///< (hidden + heads, distances)
  float* scores = nullptr;  ///< (heads, rows, keys)
  // Backward alone.
  float* delta = nullptr;        ///< (B, heads, queries)
  float* content = nullptr;      ///< (heads, rows, keys)
  float* dk = nullptr;           ///< (kv_heads, keys, head_dim in whole tiles)
  float* dv = nullptr;           ///< like dk
  float* by_distance = nullptr;  ///< (tile distances, hidden + heads, kThreads)
  float* weights = nullptr;      ///< (tile distances, 2, heads, units)
  float* joined = nullptr;       ///< (hidden + heads, distances)
  std::size_t bytes = 0;
};

}  // namespace phasescope::kernels::cuda
