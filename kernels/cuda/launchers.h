#pragma once
// One instantiation a .cu file: 16-bit type and padded head dimension; each with probes off and on.

#include "kernels/cuda/attention_cuda.h"

namespace phasescope::kernels::cuda {

using Launcher = void(const CudaAttention&, bool probes);
Launcher forward_bf16_64, forward_bf16_128, forward_fp16_64, forward_fp16_128;

}  // namespace phasescope::kernels::cuda
