#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_clamp(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_with(attention, outputs, clamp_score(attention));
}

}  // namespace phasescope::kernels::cuda
