#pragma once
// Launches: in an NVTX range, and every CUDA call checked.

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include "kernels/cuda/cuda_check.h"

namespace phasescope::kernels::cuda {

/// Names what is launched in profilers for as long as it lives.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

/// Enqueues a kernel of one parameter, a plain struct, with dynamic shared memory, in a range of
/// that name.
template <class Parameters>
void launch(const char* name, void (*kernel)(Parameters), const dim3& grid, int threads,
            int shared_bytes, void* stream, const Parameters& parameters) {
  const NvtxRange range(name);
  PHASESCOPE_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  kernel<<<grid, threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(parameters);
  PHASESCOPE_CUDA(cudaGetLastError());
}

}  // namespace phasescope::kernels::cuda
