#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_plain_tokens(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_with(attention, outputs, around(attention, PlainScore{.scale = attention.scale}));
}

}  // namespace phasescope::kernels::cuda
