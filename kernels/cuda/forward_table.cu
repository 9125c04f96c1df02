#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_table(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  const auto& table = std::get<TableVariant>(attention.variant);
  forward_with(attention, outputs, TableScore{{.scale = attention.scale}, table}, hopper_table);
}

}  // namespace phasescope::kernels::cuda
