#include "kernels/cuda/table_gradient.cuh"

namespace phasescope::kernels::cuda {

void backward_table_wide(const CudaAttention& attention, const SavedForward& saved,
                         const CudaGradients& gradients) {
  const auto& table = std::get<TableVariant>(attention.variant);
  backward_with_table<WideHeads>(attention, saved, gradients,
                                 TableScore{{.scale = attention.scale}, table});
}

}  // namespace phasescope::kernels::cuda
