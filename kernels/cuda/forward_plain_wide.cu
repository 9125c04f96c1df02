#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_plain_wide(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_with<WideHeads>(attention, outputs, PlainScore{.scale = attention.scale});
}

}  // namespace phasescope::kernels::cuda
