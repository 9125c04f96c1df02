#pragma once
// Tiles of 64 rows x D channels of 16-bit values in shared memory. A row is D / 8 chunks of 16 bytes;
// chunk c of row r lies at place c ^ (r & 7), so that the eight rows of a matrix load fall into
// different banks.

#include <cstdint>

#include "kernels/cuda/mma.cuh"

namespace phasescope::kernels::cuda {

inline constexpr int kRows = 64;      // queries of a block, keys of a tile
inline constexpr int kThreads = 128;  // four warps of 16 queries

template <int D>
__device__ __forceinline__ std::uint32_t chunk_offset(int row, int chunk) {
  return static_cast<std::uint32_t>((row * (D / 8) + (chunk ^ (row & 7))) * 16);
}

/// Rows first .. first + 63 of a (rows, channels) tensor into a tile; what does not exist is 0.
template <typename T, int D>
__device__ __forceinline__ void copy_tile(std::uint32_t tile, const T* from, std::int64_t stride,
                                          std::int64_t first, std::int64_t rows, int channels) {
  constexpr int kChunks = D / 8;
#pragma unroll
  for (int n = 0; n < kRows * kChunks / kThreads; ++n) {
    const int index = n * kThreads + static_cast<int>(threadIdx.x);
    const int row = index / kChunks, chunk = index % kChunks;
    const bool valid = first + row < rows && chunk * 8 < channels;
    const T* source = valid ? from + (first + row) * stride + chunk * 8 : from;
    copy_async(tile + chunk_offset<D>(row, chunk), source, valid);
  }
}

}  // namespace phasescope::kernels::cuda
