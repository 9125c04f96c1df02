#include "kernels/cuda/hopper_backward_dispatch.cuh"
#include "kernels/cuda/hopper_dispatch.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void hopper_plain(const CudaAttention& attention, const CudaForwardOutputs& outputs) {
  forward_in_hopper_form(attention, outputs, PlainScore{.scale = attention.scale});
}

void hopper_backward_plain(const CudaAttention& attention, const SavedForward& saved,
                           const CudaGradients& gradients) {
  backward_in_hopper_form(attention, saved, gradients, PlainScore{.scale = attention.scale});
}

}  // namespace phasescope::kernels::cuda
