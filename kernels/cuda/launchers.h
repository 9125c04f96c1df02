#pragma once
// One file a variant instantiates its kernels.

#include "kernels/cuda/attention_cuda.h"

namespace phasescope::kernels::cuda {

using ForwardLauncher = void(const CudaAttention&, const CudaForwardOutputs&);
ForwardLauncher forward_plain, forward_table, forward_tapa, forward_tape;

}  // namespace phasescope::kernels::cuda
