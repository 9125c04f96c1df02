#include "kernels/cuda/hopper_backward_dispatch.cuh"
#include "kernels/cuda/hopper_dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void hopper_table(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  const auto& table = std::get<TableVariant>(attention.variant);
  forward_in_hopper_form(attention, outputs, TableScore{{.scale = attention.scale}, table});
}

void hopper_backward_table(const CudaAttention& attention, const SavedForward& saved,
                           const CudaGradients& gradients) {
  const auto& table = std::get<TableVariant>(attention.variant);
  backward_in_hopper_form(attention, saved, gradients,
                          TableScore{{.scale = attention.scale}, table});
}

}  // namespace phasescope::kernels::cuda
