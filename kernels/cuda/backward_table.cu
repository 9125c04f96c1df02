#include "kernels/cuda/table_gradient.cuh"

namespace phasescope::kernels::cuda {

void backward_table(const CudaAttention& attention, const SavedForward& saved,
                    const CudaGradients& gradients) {
  const auto& table = std::get<TableVariant>(attention.variant);
  backward_with_table(attention, saved, gradients, TableScore{{.scale = attention.scale}, table},
                      hopper_backward_table);
}

}  // namespace phasescope::kernels::cuda
