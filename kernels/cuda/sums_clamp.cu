#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_clamp(const CudaAttention& attention, const CudaScoreSums& sums) {
  sums_with(attention, sums, clamp_score(attention));
}

}  // namespace phasescope::kernels::cuda
