#include "kernels/cuda/forward_kernel.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_bf16_128(const CudaAttention& attention, bool probes) {
  if (probes) {
    launch_forward<__nv_bfloat16, 128, AllProbes>(attention, PlainVariant{});
  } else {
    launch_forward<__nv_bfloat16, 128, NoProbes>(attention, PlainVariant{});
  }
}

}  // namespace phasescope::kernels::cuda
