#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_fire(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  const auto& fire = std::get<FireVariant>(attention.variant);
  forward_with(attention, outputs, FireScore{{.scale = attention.scale}, fire});
}

}  // namespace phasescope::kernels::cuda
