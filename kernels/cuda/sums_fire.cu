#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_fire(const CudaAttention& attention, const CudaScoreSums& sums) {
  const auto& fire = std::get<FireVariant>(attention.variant);
  sums_with(attention, sums, FireScore{{.scale = attention.scale}, fire});
}

}  // namespace phasescope::kernels::cuda
