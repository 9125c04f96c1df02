#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void sums_tapa(const CudaAttention& attention, const CudaScoreSums& sums) {
  sums_with(attention, sums, TapaScore{.tapa = std::get<TapaVariant>(attention.variant)});
}

}  // namespace phasescope::kernels::cuda
