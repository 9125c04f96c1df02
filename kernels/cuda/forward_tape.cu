#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_tape(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_with(attention, outputs, TapeScore{{.scale = attention.scale}}, hopper_tape);
}

}  // namespace phasescope::kernels::cuda
