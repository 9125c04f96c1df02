#pragma once
// Stands in for CUDA's header when kernels/cuda is compiled for the CPU (emulator.h): as much of it
// as the kernels and their tests use.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#include "tests/kernels/cuda_emulation/emulator.h"

/// Tells tests that there is no device.
#define PHASESCOPE_CUDA_EMULATION 1

// ---- Language ----------------------------------------------------------------------------------

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

#include <algorithm>
using std::max;
using std::min;

// ---- Host --------------------------------------------------------------------------------------

using cudaError_t = int;
inline constexpr cudaError_t cudaSuccess = 0;
inline constexpr cudaError_t cudaErrorInvalidValue = 1;
inline constexpr cudaError_t cudaErrorMemoryAllocation = 2;
inline const char* cudaGetErrorString(cudaError_t) { return "refused by the emulation"; }

enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

template <typename T>
cudaError_t cudaMalloc(T** data, std::size_t bytes) {
  try {
    *data = static_cast<T*>(phasescope::kernels::emulation::allocate(bytes));
  } catch (const std::bad_alloc&) {
    return cudaErrorMemoryAllocation;
  }
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
/// Of a device of 80 GiB, whatever this machine has.
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = std::size_t{3} << 30, *total = std::size_t{80} << 30;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* data) {
  try {
    phasescope::kernels::emulation::release(data);
  } catch (const std::exception&) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
using cudaStream_t = void*;
inline cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  if (bytes != 0) std::memset(data, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
/// The compute capability of the device that is emulated, for tests to change: 90 for 9.0.
inline int emulated_capability = 80;
/// Launches so far.
inline int emulated_launches = 0;
/// Shared memory of a block. Devices of compute capability 8.6 and 8.9 have the least: 99 KiB.
inline int emulated_shared_bytes() { return (emulated_capability == 90 ? 227 : 99) * 1024; }
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin
};
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = emulated_capability / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = emulated_capability % 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = emulated_shared_bytes();
      break;
  }
  return cudaSuccess;
}
struct cudaDeviceProp {
  char name[256];
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulation"};
  return cudaSuccess;
}

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct alignas(8) float2 {
  float x, y;
};

// ---- Device ------------------------------------------------------------------------------------

inline void __syncthreads(phasescope::kernels::emulation::Place where =
                              phasescope::kernels::emulation::Place::current()) {
  phasescope::kernels::emulation::join_block(where);
}
inline void __syncwarp(phasescope::kernels::emulation::Place where =
                           phasescope::kernels::emulation::Place::current()) {
  phasescope::kernels::emulation::join_warp_memory(where);
}

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask,
                  phasescope::kernels::emulation::Place where =
                      phasescope::kernels::emulation::Place::current()) {
  struct Lane {
    T value, result;
    int mask;
  } lane{value, value, mask};
  phasescope::kernels::emulation::join_warp(
      [](void* const* lanes) {
        for (int n = 0; n < 32; ++n) {
          Lane& to = *static_cast<Lane*>(lanes[n]);
          to.result = static_cast<Lane*>(lanes[n ^ to.mask])->value;
        }
      },
      &lane, where);
  return lane.result;
}

/// Bit n is lane n's condition.
inline unsigned __ballot_sync(unsigned, bool condition,
                              phasescope::kernels::emulation::Place where =
                                  phasescope::kernels::emulation::Place::current()) {
  struct Lane {
    bool condition;
    unsigned result;
  } lane{condition, 0};
  phasescope::kernels::emulation::join_warp(
      [](void* const* lanes) {
        unsigned bits = 0;
        for (unsigned n = 0; n < 32; ++n) {
          bits |= (static_cast<Lane*>(lanes[n])->condition ? 1u : 0u) << n;
        }
        for (unsigned n = 0; n < 32; ++n) static_cast<Lane*>(lanes[n])->result = bits;
      },
      &lane, where);
  return lane.result;
}
/// The place of the lowest bit from 1 on, 0 for none.
inline int __ffs(int bits) { return bits ? std::countr_zero(static_cast<unsigned>(bits)) + 1 : 0; }
inline int __popc(unsigned bits) { return std::popcount(bits); }

/// Threads take turns, in an order of their own each time.
inline float atomicAdd(float* to, float value) {
  const float before = *to;
  *to = before + value;
  return before;
}

inline float __cosf(float x) { return std::cos(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __log2f(float x) { return std::log2(x); }
