#pragma once
// The streaming attention on CUDA, first form: plain scores (rope is applied to q and k before),
// forward, log-sum-exp and row probes; bfloat16 and float16 with float32 sums. It has been compiled
// for sm_80 and sm_90a and never run on a device, so it is reached by the backend's name
// `cuda-unverified` alone.

#include <cstdint>
#include <string>

#include "kernels/attention.h"

namespace phasescope::kernels {

/// Name under which a user chooses this backend.
inline constexpr const char* kCudaBackend = "cuda-unverified";

enum class CudaType { bfloat16, float16 };

/// A (B, H, N, d) tensor in device memory: strides in elements, multiples of 8; channels contiguous,
/// data on a 16-byte boundary.
struct CudaTensor {
  void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
};

/// Everything a launch needs. Plain data, passed by value to the kernel.
struct CudaAttention {
  AttentionShape shape;  ///< head_dim a multiple of 8 up to 128, value_dim 0 or head_dim
  CudaType type = CudaType::bfloat16;
  CudaTensor q, k, v, out;
  float scale = 1;
  float* lse = nullptr;  ///< (B, heads, queries) in device memory, or null
  RowProbes rows;        ///< device pointers, or null
  void* stream = nullptr;  ///< cudaStream_t
};

/// Enqueues the forward pass. Throws std::invalid_argument for shapes it cannot do, and
/// std::runtime_error with the CUDA call, file and line when the driver refuses.
void cuda_attention_forward(const CudaAttention& attention);

/// Whether a device can be used; if not, `reason` says why in one sentence.
bool cuda_available(std::string& reason);

}  // namespace phasescope::kernels
