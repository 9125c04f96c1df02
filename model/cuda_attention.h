#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "kernels/cuda/cuda_kernels.h"
#include "model/attention.h"

// Attention by the CUDA kernels of kernels/cuda, for models on the CPU: what a pass reads is copied
// to the device, and what it makes comes back. For 16-bit tensors alone, which the kernels compute
// on as they are, with float32 sums.

namespace phasescope::model {

// The kernels that this program links, said once at its start; null for none.
void use_cuda_kernels(const kernels::CudaKernels* kernels);

// Throws Error "device_unavailable" where there are none, or no device.
void require_cuda_kernels();

// Why the CUDA kernels cannot run this; empty where they can.
std::string cuda_obstacle(const AttentionProgram& program, const at::Tensor& v);

// As fused_attention().
AttentionResult cuda_attention(const AttentionProgram& program, const at::Tensor& v,
                               const AttentionOptions& options);

}  // namespace phasescope::model
