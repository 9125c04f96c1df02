#pragma once
// Launches: in an NVTX range, and every CUDA call checked.

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/shared_limits.h"

namespace phasescope::kernels::cuda {

/// Names what is launched in profilers for as long as it lives.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

/// Lets a kernel have so much dynamic shared memory on the current device.
inline void allow_shared(const void* kernel, int bytes) {
  static SharedLimits limits;
  int device = 0;
  PHASESCOPE_CUDA(cudaGetDevice(&device));
  limits.require(kernel, device, bytes, [kernel](int most) {
    PHASESCOPE_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  });
}

/// Enqueues a kernel of one parameter, a plain struct, with dynamic shared memory, in a range of
/// that name.
template <class Parameters>
void launch(const char* name, void (*kernel)(Parameters), const dim3& grid, int threads,
            int shared_bytes, void* stream, const Parameters& parameters) {
  const NvtxRange range(name);
  allow_shared(reinterpret_cast<const void*>(kernel), shared_bytes);
  // What others left unread is not this launch's error.
  static_cast<void>(cudaGetLastError());
  kernel<<<grid, threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(parameters);
  PHASESCOPE_CUDA(cudaGetLastError());
}

}  // namespace phasescope::kernels::cuda
