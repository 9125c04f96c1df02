#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void backward_table(const CudaAttention& attention, const CudaSavedForward& saved,
                    const CudaGradients& gradients) {
  const auto& table = std::get<TableVariant>(attention.variant);
  backward_with(attention, saved, gradients, TableScore{.scale = attention.scale, .table = table});
}

}  // namespace phasescope::kernels::cuda
