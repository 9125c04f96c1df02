#include "kernels/cuda/hopper_dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void hopper_tapa(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_in_hopper_form(attention, outputs,
                         TapaScore{.tapa = std::get<TapaVariant>(attention.variant)});
}

}  // namespace phasescope::kernels::cuda
