#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_table_wide(const CudaAttention& attention, const CudaScoreSums& sums) {
  const auto& table = std::get<TableVariant>(attention.variant);
  sums_with<WideHeads>(attention, sums, TableScore{{.scale = attention.scale}, table});
}

}  // namespace phasescope::kernels::cuda
