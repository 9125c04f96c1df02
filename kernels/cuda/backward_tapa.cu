#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void backward_tapa(const CudaAttention& attention, const SavedForward& saved,
                   const CudaGradients& gradients) {
  backward_with(attention, saved, gradients,
                TapaScore{.tapa = std::get<TapaVariant>(attention.variant)});
}

}  // namespace phasescope::kernels::cuda
