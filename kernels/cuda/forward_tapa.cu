#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_tapa(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_with(attention, outputs, TapaScore{.tapa = std::get<TapaVariant>(attention.variant)},
               hopper_tapa);
}

}  // namespace phasescope::kernels::cuda
