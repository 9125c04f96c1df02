#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void backward_plain_wide(const CudaAttention& attention, const SavedForward& saved,
                         const CudaGradients& gradients) {
  backward_with<WideHeads>(attention, saved, gradients, PlainScore{.scale = attention.scale});
}

}  // namespace phasescope::kernels::cuda
