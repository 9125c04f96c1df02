#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void backward_plain(const CudaAttention& attention, const SavedForward& saved,
                    const CudaGradients& gradients) {
  backward_with(attention, saved, gradients, PlainScore{.scale = attention.scale},
                hopper_backward_plain);
}

}  // namespace phasescope::kernels::cuda
