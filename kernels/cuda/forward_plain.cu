#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_plain(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_with(attention, outputs, PlainScore{.scale = attention.scale}, hopper_plain);
}

}  // namespace phasescope::kernels::cuda
