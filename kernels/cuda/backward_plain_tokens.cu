#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void backward_plain_tokens(const CudaAttention& attention, const SavedForward& saved,
                           const CudaGradients& gradients) {
  backward_with(attention, saved, gradients,
                around(attention, PlainScore{.scale = attention.scale}));
}

}  // namespace phasescope::kernels::cuda
