#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_plain_wide(const CudaAttention& attention, const CudaScoreSums& sums) {
  sums_with<WideHeads>(attention, sums, PlainScore{.scale = attention.scale});
}

}  // namespace phasescope::kernels::cuda
