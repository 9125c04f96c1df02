#include "kernels/cuda/hopper_dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void hopper_plain(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_in_hopper_form(attention, outputs, PlainScore{.scale = attention.scale});
}

}  // namespace phasescope::kernels::cuda
