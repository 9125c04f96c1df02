#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_plain_tokens(const CudaAttention& attention, const CudaScoreSums& sums) {
  sums_with(attention, sums, around(attention, PlainScore{.scale = attention.scale}));
}

}  // namespace phasescope::kernels::cuda
