#include "kernels/cuda/forward_kernel.cuh"
#include "kernels/cuda/launchers.h"

namespace phasescope::kernels::cuda {

void forward_fp16_64(const CudaAttention& attention, bool probes) {
  if (probes) {
    launch_forward<__half, 64, AllProbes>(attention, PlainVariant{});
  } else {
    launch_forward<__half, 64, NoProbes>(attention, PlainVariant{});
  }
}

}  // namespace phasescope::kernels::cuda
