#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_table_wide(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  const auto& table = std::get<TableVariant>(attention.variant);
  forward_with<WideHeads>(attention, outputs, TableScore{{.scale = attention.scale}, table});
}

}  // namespace phasescope::kernels::cuda
