#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_table_tokens(const CudaAttention& attention, const CudaScoreSums& sums) {
  const auto& table = std::get<TableVariant>(attention.variant);
  sums_with(attention, sums, around(attention, TableScore{{.scale = attention.scale}, table}));
}

}  // namespace phasescope::kernels::cuda
